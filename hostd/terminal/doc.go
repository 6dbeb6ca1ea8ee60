// Package terminal is the terminal relay of a launch: the bytes of the
// harness's PTY over an owner-only unix socket, for one viewer.
//
//	PTY ──▶ Backlog (256 KiB, modes) ──▶ Feed ──▶ viewer      never blocks the PTY
//	PTY ◀──────────── keystrokes, size ◀──────── viewer
//
//	frame.go    the protocol: type, length, payload
//	gate.go     the attach token: one-shot, by digest, three wrong tries
//	backlog.go  the newest output, what a viewer is sent, queries
//	pieces.go   the stream in pieces that begin where it may be cut
//	relay.go    the actor that serves the socket
//	client.go   sophia agent attach
//	port.go     reading and writing with as few wake-ups as can be
//	detach.go   the detach key in all its encodings
//
// It carries no Sophia credential and no lifecycle authority: the protocol has
// no message for either. Closing a viewer changes nothing about the agent.
//
// Imports: messages, actors/supervise, hostd/peer, hostd/terminal/vt.
package terminal
