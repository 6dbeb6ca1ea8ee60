// Package terminal is the terminal relay of a launch: the bytes of the
// harness's PTY over an owner-only unix socket, for one viewer.
//
//	PTY ──▶ Backlog (256 KiB, modes) ──▶ Feed ──▶ viewer's terminal   never blocks the PTY
//	PTY ◀────────────────────── keystrokes ◀────── viewer's terminal
//	    ◀──────────── size, its leaving ◀───────── viewer's program
//
// The viewer's program passes its terminal with its hello, once it knows that
// the launch's host listens; what is typed and shown then goes through no other
// process. The program stays to set the terminal raw, to follow its size, and to
// give it back, also when the host dies; when it is killed itself, the host does
// that. While it does not have the terminal's foreground, keys are not taken. Where the terminal can't be passed
// (there is none, it was opened by another user, nobody can say which process
// the host is) keys and output are frames.
//
//	frame.go    the protocol: type, length, payload
//	gate.go     the attach token: one-shot, by digest, three wrong tries
//	backlog.go  the newest output, what a viewer is sent, queries
//	pieces.go   the stream in pieces that begin where it may be cut
//	relay.go    the actor that serves the socket
//	viewer.go   who is attached: what it is shown, what it types, its end
//	rights.go   the descriptor of the viewer's terminal on its way to the relay
//	glass.go    that terminal, and whose its keys are
//	line.go     raw, and back
//	client.go   sophia agent attach
//	port.go     reading and writing with as few wake-ups as can be
//	detach.go   the detach key in all its encodings
//
// It carries no Sophia credential and no lifecycle authority: the protocol has
// no message for either. Closing a viewer changes nothing about the agent.
//
// Imports: messages, actors/supervise, hostd/peer, hostd/terminal/vt.
package terminal
