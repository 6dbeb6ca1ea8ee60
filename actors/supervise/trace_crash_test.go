package supervise_test

import "github.com/anthdm/hollywood/actor"

// crash <child> panics in it.
func handleCrash(e *traceEnv, b block) {
	if err := e.ref(b).Send(order(func(*actor.Context) { panic("crash") })); err != nil {
		e.printf("%v", err)
	}
}
