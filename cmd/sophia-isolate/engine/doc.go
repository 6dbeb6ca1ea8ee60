// Package engine is the V8 side of an isolate worker: one isolate, one context,
// one run.
//
// One loop owns V8, on a locked thread that is not the process's main one (glibc
// reads /proc/self/maps at each lock taken there, which makes every entry into
// V8 several times dearer). Only Terminate is called from another goroutine.
//
// The prelude (prelude/*.js, one function scope in that order) gives the
// snippet its globals. It crosses into Go with numbers and strings only, through
// functions that the snippet cannot reach.
//
// Imports: v8go (here and nowhere else), the wire, the compiler of snippets.
package engine
