// Package envelope is the daemon's end of a launch's envelope socket: what the
// relay actor (actors/envelope) listens with. The other end is in package wrapper.
package envelope
