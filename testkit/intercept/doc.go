// Package intercept is an HTTP proxy on loopback that answers for every host
// itself, over TLS with certificates of an authority that it makes up: for
// programs that insist on a host of their vendor's. They are told of it as people
// behind a company's proxy tell theirs, by HTTPS_PROXY and the authority's file.
package intercept
