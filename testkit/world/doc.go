// Package world is a whole machine of Sophia's own for the demo and the
// end-to-end tests: folders, a person's home, a private systemd user manager,
// the programs as they are shipped, and the owner in front of terminals.
//
//	world.go    folders, configuration, manager, programs
//	daemon.go   the daemon: up, its process, kill -9, the owner API
//	screen.go   a program on a PTY, and what it printed
//	tray.go     sophia-tray --terminal, and the owner who reads it and types the code
//	agent.go    an agent that uses a minted connection
//	left.go     what is left of a launch: processes, folders, control groups
//
// Nothing of it is the owner's of this machine. Imports: hostd and testkit.
package world
