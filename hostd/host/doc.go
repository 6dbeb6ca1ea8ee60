// Package host is what runs as a launch's unit: it trusts nothing that the
// daemon verified before, verifies it again, and starts the harness on a PTY.
//
//	verify.go  own executable, harness, wrapper, launcher, workspace
//	report.go  what the daemon reads: report.json, replaced at each stage
//	pty.go     the PTY, drained always
//	harness.go the harness's process: held descriptor, exact environment
//	run.go     all of it, supervised
//
// Supervised in one tree: harness (Temporary: a second life would be a second
// agent), pty and terminal (Permanent). What must survive their restarts, the
// PTY itself, the socket, the attach token's state and the backlog, lies
// outside of them.
//
// Imports: messages, actors/supervise, hostd/manifest, hostd/harness, hostd/terminal.
package host
