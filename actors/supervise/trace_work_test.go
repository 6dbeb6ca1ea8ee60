package supervise_test

import (
	"context"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// work <child> [stubborn|panic] starts work beside it that lasts until the child's
// context ends, or until release, or that panics.
func handleWork(e *traceEnv, b block) {
	kind := ""
	if len(b.args) > 2 {
		kind = b.args[2]
	}
	release := e.until(b.args[1])
	err := e.ref(b).Send(order(func(c *actor.Context) {
		supervise.Go(c, func(ctx context.Context) any {
			switch kind {
			case "panic":
				panic("in the work")
			case "stubborn":
				<-release
			default:
				<-ctx.Done()
			}
			e.printf("the work ends")
			return nil
		})
	}))
	if err != nil {
		e.printf("%v", err)
	}
}
