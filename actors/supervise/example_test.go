package supervise_test

import (
	"context"
	"fmt"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// greeter answers names and crashes at an empty one.
type greeter struct{}

func (greeter) Receive(c *actor.Context) {
	if name, ok := c.Message().(string); ok {
		if name == "" {
			panic("nobody to greet")
		}
		supervise.ReplyTo(c).Send("Hello, " + name)
	}
}

func Example() {
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		panic(err)
	}
	tree, err := supervise.Start(engine, "example",
		supervise.Policy{Strategy: supervise.OneForOne, Max: 3, Report: func(e supervise.Event) { fmt.Println(e) }},
		supervise.Spec{ID: "greeter", New: func() actor.Receiver { return greeter{} }})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	greeter := tree.Lookup("greeter")
	fmt.Println(greeter.Ask(ctx, "Sophia"))

	down := make(chan struct{})
	watcher := func(c *actor.Context) {
		if _, ok := c.Message().(supervise.Down); ok {
			close(down)
		}
	}
	w, err := tree.Add(supervise.Spec{ID: "watcher", New: func() actor.Receiver { return fn(watcher) }})
	if err != nil {
		panic(err)
	}
	greeter.Ref().Monitor(w)
	if err := tree.Remove(ctx, "greeter"); err != nil {
		panic(err)
	}
	<-down
	fmt.Println(greeter.Ask(ctx, "nobody"))
	if _, err := tree.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// started example/greeter#1
	// Hello, Sophia <nil>
	// started example/watcher#2
	// exited example/greeter#1: supervise: stopped by the tree
	// <nil> supervise: the actor is down
	// exited example/watcher#2: supervise: stopped by the tree
}
