package supervise_test

import "context"

// remove <child> removes it beside the scenario.
func handleRemove(e *traceEnv, b block) {
	id := b.args[1]
	go func() {
		if err := e.tree.Remove(context.Background(), id); err != nil {
			e.asidef("not removed: %v", err)
		} else {
			e.asidef("%s is removed", id)
		}
	}()
}
