package supervise_test

import "context"

// stop ends the tree beside the scenario.
func handleStop(e *traceEnv, _ block) {
	go func() {
		left, err := e.tree.Stop(context.Background())
		e.asidef("the tree has ended: %s, left behind %v, error %v", errText(e.tree.Err()), left, err)
	}()
}
