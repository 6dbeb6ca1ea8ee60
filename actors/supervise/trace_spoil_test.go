package supervise_test

// spoil <id> [no] makes an actor panic in its next Starteds.
func handleSpoil(e *traceEnv, b block) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bad[b.args[1]] = len(b.args) == 2
}
