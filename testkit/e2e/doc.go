// Package e2e has the end-to-end tests: the shipped programs in a private
// systemd user manager, treated as badly as a machine and its owner can treat
// them. It has no code of its own besides the tests and their house.
//
//	house_test.go       a world with a workspace, an adopted harness and a tray
//	crash_test.go       kill -9 of the daemon at every state of a launch
//	parts_test.go       kill -9 of a launch's other processes, and in the middle of calls
//	faults_test.go      the rows of docs/faults.md that the two above leave
//	refusal_test.go     what is not what was approved
//	agents_test.go      the real Codex and Claude Code: custody, pollution, confinement
//	cores_test.go       no program dumps its memory
//	quiet_test.go       what outlives its unit
//	stopped_test.go     what the owner stops by other ways than sophia agent stop
//	terminal_test.go    start, attach, detach and logs in a real terminal
//	foreground_test.go  a machine without systemd
package e2e
