// Package envelope is the two ends of a launch's envelope socket: what the
// daemon's relay actor (actors/envelope) listens with, and how the wrapper
// fetches its envelope and deposits the bearer.
package envelope
