// Package vt follows a terminal's byte stream without emulating a terminal: it
// knows where a sequence begins and ends, which modes are set, and what asks
// the terminal for an answer. It keeps up with a PTY, which an emulator does not.
//
//	Parser   bytes → text and whole control sequences (ECMA-48, xterm's ctlseqs)
//	Tracker  what programs set once and rely on for ever: modes, pen, margins,
//	         kitty keyboard stacks, alternate screen, title; as a string that
//	         brings a fresh terminal there (Preamble) or back (Undo)
//	Filter   copies a stream without the sequences that a policy refuses
//	Answer   what a terminal would answer to a query
//
// Streams are UTF-8: C1 controls count only in their 7-bit form, since 0x80 to
// 0x9f are continuation bytes.
//
// Imports: the standard library only.
package vt
