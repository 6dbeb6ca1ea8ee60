package supervise_test

import (
	"context"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// ask <child> [silence|crash] asks it, beside the scenario, and prints what comes back.
func handleAsk(e *traceEnv, b block) {
	r := e.ref(b)
	do := order(func(c *actor.Context) { supervise.ReplyTo(c).Send("an answer") })
	if len(b.args) > 2 {
		switch b.args[2] {
		case "silence":
			do = func(*actor.Context) {}
		case "crash":
			do = func(*actor.Context) { panic("crash") }
		}
	}
	go func() {
		v, err := r.Ask(context.Background(), do)
		if err != nil {
			e.asidef("the ask fails: %v", err)
			return
		}
		e.asidef("the ask returns %v", v)
	}()
}
