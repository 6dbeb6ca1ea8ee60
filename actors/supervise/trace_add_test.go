package supervise_test

import "strings"

// add <child …> adds a child beside the scenario.
func handleAdd(e *traceEnv, b block) {
	s := e.specs(append([]string{strings.TrimPrefix(b.command, "add ")}, b.input...))[0]
	go func() {
		if _, err := e.tree.Add(s); err != nil {
			e.asidef("not added: %v", err)
		} else {
			e.asidef("%s is added", s.ID)
		}
	}()
}
