package supervise_test

import (
	"runtime"

	"github.com/anthdm/hollywood/actor"
)

// goexit <child> calls runtime.Goexit in it.
func handleGoexit(e *traceEnv, b block) {
	if err := e.ref(b).Send(order(func(*actor.Context) { runtime.Goexit() })); err != nil {
		e.printf("%v", err)
	}
}
