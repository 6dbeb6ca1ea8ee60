// Package login decides whether a terminal is one at which the owner is: one of
// a login, or of a terminal window on the owner's desktop. A process of the
// owner can make itself a terminal, run any program on it and type; it cannot
// make itself a login.
//
//	login    the terminal's session was begun by one of the owner's logins at
//	         logind, on the terminal that logind knows (console, serial line) or
//	         that the sshd between them names
//	window   the owner is logged in graphically, and the terminal's other end is
//	         held by a known terminal emulator whose program belongs to root
//
// What tmux, screen, script or an agent opens is neither. All facts are the
// kernel's and logind's, none the process's own.
//
// Bounds: whoever can log in as the owner (a key that opens ssh to this very
// machine), type into the owner's windows (X11, a remote-controlled emulator),
// or trace the owner's processes, is at the owner's terminal.
//
//	login.go     the check
//	rule.go      the rule, without a machine
//	proc.go      processes and who holds a pseudo-terminal
//	logind.go    logins
//
// Imports: hostd/peer, messages/problem.
package login
