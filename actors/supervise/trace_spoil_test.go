package supervise_test

// spoil <id> panic|hang|no says what an actor does in its next Starteds.
func handleSpoil(e *traceEnv, b block) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bad[b.args[1]] = b.args[2]
}
