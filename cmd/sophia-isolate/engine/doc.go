// Package engine is the V8 side of an isolate worker: one isolate, one context,
// one run.
//
// One loop owns V8, never on the process's main thread (glibc reads
// /proc/self/maps at each lock taken there, which makes every entry into V8
// several times dearer). Its goroutine is not tied to a thread: the one that is
// woken by a frame enters V8 with it, where another thread would have to be woken
// first. Only Terminate is called from another goroutine.
//
// The prelude (prelude/*.js, one function scope in that order) gives the
// snippet its globals. It crosses into Go with numbers and strings only, through
// functions that the snippet cannot reach.
//
// Imports: v8go (here and nowhere else), the wire, the compiler of snippets.
package engine
