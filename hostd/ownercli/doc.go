// Package ownercli is the sophia command: one grammar, sophia <noun> <verb>,
// one file a noun. Each verb is an options struct, a constructor that names its
// flags, and a run method that does the work; what a run needs of the world
// comes from App, so that tests give it buffers and another daemon.
//
// For every command:
//
//	--json     the answer as one JSON value on standard output, always of the
//	           same shape, errors too: {"error":{"code","message","hint"}}
//	NO_COLOR   is honoured; colour only on a terminal
//	exit code  0 done, 1 failed, 2 usage, 3 refused, 4 daemon not reachable,
//	           5 timed out
//
// Imports: hostd/…, messages.
package ownercli
