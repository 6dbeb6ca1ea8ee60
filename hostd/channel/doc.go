// Package channel is the local channel that a credential travels on: a unix
// socket of type SOCK_SEQPACKET where one packet is one frame, every packet
// carries the kernel's word on who sent it, and no descriptor can be passed in.
//
//	server                                client
//	Accept → peer.Check
//	Challenge(fresh nonce)  ───────────▶
//	                        ◀───────────  Answer(nonce)   sent by the checked process itself
//	peer.Recheck
//	frames                  ◀──────────▶  frames
//
// Why the answer proves what the check alone does not: the checked process runs
// the genuine program. If the socket was stolen from it before it became that
// program, it knows nothing of the socket and does not answer; the thief's own
// answer carries the thief's pid.
//
// Frame, at most MaxFrame bytes, refused whole if anything is left over or missing:
//
//	F5 'S' 'E' 01 | kind u8 | 0 | body length u16 | secret length u16 | body | secret
//
// 0xF5 begins no UTF-8 text, so nothing that a program prints is a frame: a
// genuine wrapper whose standard output is a stolen socket answers nothing by
// accident.
package channel
