package supervise

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/anthdm/hollywood/actor"
)

// idle counts its ends.
type idle struct{ stopped *int }

func (r idle) Receive(c *actor.Context) {
	if _, ok := c.Message().(actor.Stopped); ok {
		*r.stopped++
	}
}

// A defect in the supervisor itself must not leave a tree that hangs.
func TestSupervisor_ItsOwnPanicEndsTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			t.Fatal(err)
		}
		stopped := 0
		kid := Spec{ID: "a", New: func() actor.Receiver { return idle{&stopped} }}
		tree, err := Start(e, "root", Policy{}, kid, Spec{ID: "n", Tree: &TreeSpec{Kids: []Spec{kid}}})
		if err != nil {
			t.Fatal(err)
		}
		tree.tell(lifeExited{}) // no member: it can't be handled
		<-tree.Done()
		synctest.Wait()
		if _, ok := errors.AsType[*PanicError](tree.Err()); !ok {
			t.Errorf("the tree ended with %v", tree.Err())
		}
		if stopped != 2 {
			t.Errorf("%d of 2 actors were stopped", stopped)
		}
	})
}
