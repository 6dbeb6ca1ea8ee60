package supervise_test

// send <child> <text> …
func handleSend(e *traceEnv, b block) {
	r := e.ref(b)
	for _, text := range b.args[2:] {
		if err := r.Send(text); err != nil {
			e.printf("%s: %v", text, err)
		}
	}
}
