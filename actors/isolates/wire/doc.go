// Package wire is the protocol between the daemon and one isolate worker, over
// a pipe in each direction.
//
//	daemon                         worker
//	                         ←     Ready    once, when locked down and waiting
//	Methods, Input, Run      →              once; nothing follows but Result and Stop
//	                         ←     Began    before the first byte of the snippet is looked at
//	                         ←     Call     any number, each answered by one Result
//	Result                   →
//	                         ←     Log      any number, a line each
//	Stop                     →              terminate the snippet
//	                         ←     Stats, then Done or Failed; the worker waits for its end
//
// The compiler speaks it too: Ready, then for each Run, whose payload is the code
// as written, Done with a script.Program or Failed.
//
// A frame is a fixed header, a short name and a payload; the payload is raw JSON
// (or raw text where the kind says so), never JSON inside JSON:
//
//	offset 0  uint32  length of all that follows, little endian
//	       4  uint8   kind
//	       5  uint8   flags
//	       6  uint16  length of the name
//	       8  uint32  id
//	      12  name, then payload
//
// The daemon trusts nothing that it reads here: a snippet that took over its
// worker can send any bytes. Every length is checked before memory is taken.
//
// Imports: the standard library.
package wire
