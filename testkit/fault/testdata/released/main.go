// Command released tries to inject a fault as a released binary would have to.
package main

import (
	"fmt"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/testkit/fault"
)

type idle struct{}

func (idle) Receive(*actor.Context) {}

func main() {
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		panic(err)
	}
	child := supervise.Spec{ID: "a", New: func() actor.Receiver { return idle{} }}
	_, err = supervise.Start(e, "root", supervise.Policy{Intercept: fault.New().Intercept}, child)
	fmt.Println(err)
	tree, err := supervise.Start(e, "root", supervise.Policy{}, child)
	fmt.Println(err)
	nested := &supervise.TreeSpec{Policy: supervise.Policy{Intercept: fault.New().Intercept}}
	_, err = tree.Add(supervise.Spec{ID: "b", Tree: nested})
	fmt.Println(err)
}
