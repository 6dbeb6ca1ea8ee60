package supervise_test

// monitor <child> <other> tells other when this life of child ends.
func handleMonitor(e *traceEnv, b block) {
	e.ref(b).Monitor(e.tree.Ref(b.args[2]))
}
