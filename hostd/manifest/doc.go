// Package manifest is the one-use file through which the daemon tells
// sophia-host what to run.
//
// The daemon writes it (mode 0600, a new file) and puts nothing but its path
// and its digest on the host's command line. The host consumes it: whoever
// unlinks the file owns it, so a manifest is good for one start and can't be
// replayed, and the digest makes a swapped one worthless. It holds no secret.
//
// Imports: messages and the standard library.
package manifest
