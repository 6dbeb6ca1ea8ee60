// Package ownertray is the tray in a terminal: it lists what waits for the
// owner, live, shows one request with all that would change, and carries the
// answer. To approve, the owner types the code that the request shows.
//
//	model.go   what is shown and what a line means, without a terminal
//	view.go    the model as lines that fit a screen
//	keys.go    bytes of a terminal as keys
//	run.go     the terminal and the connection around them
//
// Imports: hostd/ownerapi, hostd/ownerkey, hostd/ownertext, messages.
package ownertray
