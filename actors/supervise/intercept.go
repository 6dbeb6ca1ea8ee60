package supervise

import (
	"testing"
	"time"
)

// Interceptor decides what happens to the n-th message that is delivered in a
// life: 1 is Initialized, 2 is Started, and Stopped is the last. It is called
// on the actor's goroutine.
type Interceptor func(path string, gen, n uint64, msg any) Fault

// Fault is what an Interceptor does to a delivery. The zero value passes it.
type Fault struct {
	Do    FaultKind
	Value any             // Panic: the value
	For   time.Duration   // Delay: how long the actor is busy first
	Until <-chan struct{} // Hang: until this is closed; nil: until the context is cancelled
}

// FaultKind is a kind of Fault.
type FaultKind uint8

const (
	Pass   FaultKind = iota
	Drop             // the message vanishes; lifecycle messages pass
	Delay            // the actor is busy for a while before it handles the message
	Dup              // the message is handled twice; lifecycle messages pass
	Panic            // the actor panics instead of handling it
	Goexit           // the actor calls runtime.Goexit instead of handling it
	Hang             // the actor blocks before handling it
)

// interceptable is true in a binary made by go test and in no other: the linker
// sets what testing.Testing reads. A build tag would do the same for whoever
// builds, but then plain go test would skip every fault test.
func interceptable() bool { return testing.Testing() }
