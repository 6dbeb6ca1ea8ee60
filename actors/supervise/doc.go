// Package supervise keeps actors alive: supervision trees in the sense of
// Erlang/OTP, on hollywood's mailbox, registry and scheduler.
//
//	Tree ── supervisor (one actor; performs what the pure core decides)
//	 ├─ cell ─ your actor.Receiver      one life: path/id#gen
//	 ├─ cell ─ your actor.Receiver
//	 └─ Tree ─ ...                      a tree is a child of a tree
//
// A cell is the boundary that hollywood never sees a failure cross: it builds
// the receiver, recovers panics, notices runtime.Goexit, and reports its exit
// exactly once, after the receiver's Stopped and after the work that it started
// with Go. The rules (who restarts, in which order, when to give up) are in
// core.go, a machine without goroutines or clocks.
//
// Messages go through a Ref, which belongs to one life. Send never blocks and
// never loses silently: ErrDown when the actor has stopped taking messages,
// ErrFull when its inbox is full, a DeadLetter event for what was accepted but
// never handled. Lookup is the handle that survives restarts.
//
// House rules inside Receive: no blocking, no hollywood Request, no waiting for
// a stop, no Ask, no Tree.Add (wrap them in Go); copy what a goroutine needs
// before starting it, because *actor.Context is reused for the next message;
// send through a Ref and never to a PID; no event-stream subscribers.
//
// The package imports hollywood and the standard library.
package supervise
