package supervise_test

import (
	"errors"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// exit <child> [reason] ends it from within.
func handleExit(e *traceEnv, b block) {
	var reason error
	if len(b.args) > 2 {
		reason = errors.New(b.args[2])
	}
	if err := e.ref(b).Send(order(func(c *actor.Context) { supervise.Exit(c, reason) })); err != nil {
		e.printf("%v", err)
	}
}
