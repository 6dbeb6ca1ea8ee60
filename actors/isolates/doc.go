// Package isolates runs snippets of execute_code, each in a process of its own
// that is used once.
//
//	isolates  OneForOne
//	├─ workers   one Temporary actor per child process, added as needed
//	│    starting → idle → leased → running → gone
//	├─ compiler  Permanent: one child process, kept warm, for all snippets
//	└─ broker    Permanent: who gets the next idle worker
//
// Run has the snippet compiled, asks the broker for a worker and hands it the
// program. The broker keeps a few workers warm, never more than a maximum, and
// queues a burst fairly: the connection with the fewest runs under way is next. A
// worker that dies before it took the snippet is replaced and the snippet given
// to the next; after that a snippet is never run again. A snippet that ends the
// compiler is told so; one that was there when the compiler ended for another
// reason is given to the next.
//
// What may happen in a run is a machine without goroutines or clocks
// (machine.go); session.go performs what it decides. Nothing that comes from the
// worker is trusted: it may be anything by then.
//
// Imports: actors/supervise, messages, script, the wire, and runclock.
package isolates
