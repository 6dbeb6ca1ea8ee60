package supervise_test

// release [child] ends what hangs in it; in all of them without a child.
func handleRelease(e *traceEnv, b block) {
	for id, until := range e.hung {
		if len(b.args) == 1 || b.args[1] == id {
			close(until)
			delete(e.hung, id)
		}
	}
}
