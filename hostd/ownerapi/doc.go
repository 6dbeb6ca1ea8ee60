// Package ownerapi is how the owner's programs talk to the daemon: HTTP on an
// owner-only unix socket and on loopback, served from small interfaces that the
// daemon fills in, and a typed client for it.
//
// There is no unauthenticated path. Every request is signed with the owner's
// key (RFC 9421), and the signature covers
//
//	"@method" "@path" "@query" "content-digest" "sophia-instance"
//	;created ;nonce ;keyid ;tag="sophia-owner"
//
// A nonce is taken once, a signature lives a minute, and sophia-instance names
// this run of the daemon, so that what was sent to an earlier run cannot be
// replayed to the next. A client that doesn't know the instance yet is told it
// in the refusal and signs again.
//
// The key is authority to ask, not presence. Answering an approval takes a
// connection on the unix socket whose peer the kernel attests to be the
// packaged tray (GET /api/owner/tray, upgraded); anything else gets
// approval_needs_presence.
//
//	wire.go      what travels, and under which paths
//	services.go  what the daemon fills in
//	verify.go    signature, nonce, instance
//	server.go    the handler; routes_*.go its routes
//	tray.go      the tray's connection, both ends
//	client.go    the client; calls.go its calls
//
// Imports: hostd/ownerkey, hostd/peer, messages.
package ownerapi
