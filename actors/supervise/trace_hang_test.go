package supervise_test

import (
	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// hang <child> [politely] blocks it until release, or politely until its context ends.
func handleHang(e *traceEnv, b block) {
	polite := len(b.args) > 2
	until := e.until(b.args[1])
	err := e.ref(b).Send(order(func(c *actor.Context) {
		if polite {
			<-supervise.Context(c).Done()
		} else {
			<-until
		}
	}))
	if err != nil {
		e.printf("%v", err)
	}
}
