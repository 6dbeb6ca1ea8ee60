// Program sophia-compile turns snippets of execute_code into JavaScript: it locks
// itself down, says that it is ready, and answers one snippet after the other.
// The daemon starts it with the protocol of sophia/actors/isolates/wire on its
// standard input and output; it has no use on its own.
package main
