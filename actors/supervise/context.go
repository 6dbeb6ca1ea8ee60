package supervise

import (
	"context"

	"github.com/anthdm/hollywood/actor"
)

// cellOf returns the cell of the actor that c belongs to.
func cellOf(c *actor.Context) *cell {
	l, ok := c.Receiver().(*cell)
	if !ok {
		panic("supervise: " + c.PID().String() + " is not a supervised actor")
	}
	return l
}

// Self returns the Ref of the actor that is receiving.
func Self(c *actor.Context) *Ref { return &cellOf(c).Ref }

// Home returns the tree that the actor is a child of, and thereby its siblings.
func Home(c *actor.Context) *Tree { return cellOf(c).tree }

// Context returns a context that ends with this life: when its Stopped has been
// handled, or when its grace is over.
func Context(c *actor.Context) context.Context { return cellOf(c).context() }

// Exit ends this life after the current Receive. A nil reason is a normal end.
// What is still queued becomes dead letters.
func Exit(c *actor.Context, reason error) { cellOf(c).die(reason) }

// Go runs work beside the actor. A non-nil result comes back to the actor as a
// message; a panic in it is a crash of the actor. Its context is Context(c).
// The life is not over, and not restarted, before its work has returned.
func Go(c *actor.Context, work func(ctx context.Context) any) {
	l := cellOf(c)
	l.open.Add(1)
	go l.work(l.context(), work)
}

func (c *cell) work(ctx context.Context, work func(context.Context) any) {
	defer c.leave()
	returned := false
	defer func() {
		if returned {
			return
		}
		var reason error = ErrGoexit
		if v := recover(); v != nil {
			reason = caught(v)
		}
		if !c.post(workFailed{reason}, c.tree.token) {
			c.mu.Lock()
			c.blame = reason
			c.mu.Unlock()
		}
	}()
	v := work(ctx)
	returned = true
	if v != nil && !c.post(v, nil) {
		c.tree.report(DeadLetter{Path: c.Path(), Gen: c.gen, Msg: v, Count: 1})
	}
}
