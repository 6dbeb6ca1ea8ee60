package supervise_test

import "sophia/actors/supervise"

// start <strategy> [max=] [within=] [backoff=] [longest=], and a child per line.
func handleStart(e *traceEnv, b block) {
	tree, err := supervise.Start(e.engine, "root", e.policy(b.args[1:]), e.specs(b.input)...)
	if err != nil {
		e.printf("not started: %v", err)
		return
	}
	e.tree = tree
}
