package supervise

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// cell wraps one life of a receiver. hollywood runs Initialized and Started on
// the goroutine that spawns, where a slow or failing receiver would hit the
// supervisor; the cell lets those pass and gets its own through the inbox.
type cell struct {
	Ref
	m     *member
	inner actor.Receiver
	stage stage
	open  atomic.Int32 // 1 for the receiver, 1 for each work
	n     uint64       // deliveries, for the interceptor
	cause error        // why it ends
	fuse  *time.Timer  // bounds an end that the tree did not ask for
}

type stage uint8

const (
	unhatched stage = iota // spawned by nobody yet
	hatching               // hollywood's own Initialized is through
	hatched                // hollywood's own Started is through
	born                   // Initialized is handled
	live                   // Started is handled
	moving                 // spawned again, after a Goexit
	arriving               // hollywood's second Initialized is through
	leaving                // handles nothing more but Stopped
)

// workFailed is the exit of a work, on its way to the cell.
type workFailed struct{ reason error }

// hatch starts a life. false: the engine has an actor of that name.
func (c *cell) hatch() bool {
	e := c.tree.engine
	c.open.Store(1)
	inbox := min(c.limit, 4) // it grows on demand, and credits bound it
	e.Spawn(c.receiver, c.tree.kind, actor.WithID(c.pid.ID[len(c.tree.kind)+1:]),
		actor.WithInboxSize(int(max(inbox, 2))), actor.WithMaxRestarts(-1), actor.WithRestartDelay(0))
	if c.stage != hatched {
		c.state.Store(closed)
		return false
	}
	e.SendLocal(c.pid, actor.Initialized{}, nil)
	e.SendLocal(c.pid, actor.Started{}, nil)
	return true
}

func (c *cell) receiver() actor.Receiver { return c }

// Receive implements actor.Receiver for hollywood.
func (c *cell) Receive(ctx *actor.Context) {
	if c.stage == live {
		if _, end := ctx.Message().(actor.Stopped); end {
			c.stopped(ctx)
			return
		}
		if c.took()&cut != 0 {
			c.deadLetter(ctx)
			return
		}
		if ctx.Sender() != nil && c.special(ctx) {
			return
		}
		c.deliver(ctx)
		return
	}
	c.receiveOnce(ctx)
}

// receiveOnce is Receive for the stages that a life passes once.
func (c *cell) receiveOnce(ctx *actor.Context) {
	_, end := ctx.Message().(actor.Stopped)
	switch {
	case c.stage == unhatched:
		c.stage = hatching
		return
	case c.stage == hatching:
		c.stage = hatched
		return
	case c.stage == moving:
		c.stage = arriving
		return
	case c.stage == arriving:
		c.stage = leaving
		return
	case end:
		c.stopped(ctx)
		return
	}
	switch ctx.Message().(type) {
	case actor.Initialized: // it and Started are first in the inbox and take no credit
		if c.stage == hatched && c.state.Load()&cut == 0 {
			c.stage = born
			c.guard(ctx, c.build)
		}
	case actor.Started:
		if c.stage == born && c.state.Load()&cut == 0 {
			c.stage = live
			c.deliver(ctx)
			if slow := c.state.Load()&cut != 0; !slow && (c.stage == live || c.cause == nil) {
				c.tree.tell(lifeStarted{c.m, c.gen})
			}
		}
	default:
		c.took()
		c.deadLetter(ctx)
	}
}

func (c *cell) build(ctx *actor.Context) {
	c.inner = c.m.spec.New()
	if c.inner == nil {
		panic("supervise: New returned nil")
	}
	c.run(ctx)
}

func (c *cell) deliver(ctx *actor.Context) { c.guard(ctx, c.run) }

func (c *cell) run(ctx *actor.Context) {
	if c.tree.intercept != nil {
		c.intercepted(ctx)
		return
	}
	c.inner.Receive(ctx)
}

// special handles messages that carry a token: it reports whether the receiver
// is not to see this one.
func (c *cell) special(ctx *actor.Context) bool {
	if ctx.Sender() == c.tree.token {
		c.die(ctx.Message().(workFailed).reason)
		return true
	}
	return c.expired(ctx.Sender())
}

// guard runs f and turns whatever it does into a return.
func (c *cell) guard(ctx *actor.Context, f func(*actor.Context)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			c.die(caught(v))
			return
		}
		c.die(ErrGoexit)
		c.unwedge()
	}()
	f(ctx)
	returned = true
}

// die ends the life from within. What is queued becomes dead letters, and the
// receiver still gets its Stopped.
func (c *cell) die(reason error) {
	if c.stage == leaving {
		if c.cause == nil {
			c.cause = reason
		}
		return
	}
	c.stage, c.cause = leaving, reason
	c.fuse = time.AfterFunc(c.m.spec.Stop.grace(), func() { c.tree.tell(overdue{c.m, c.gen}) })
	if reason != nil {
		c.failAsks(reason)
	}
	c.close(0)
}

// unwedge gives a life whose inbox goroutine is gone a new inbox under the same
// name, for nothing but its Stopped. What was queued in the old one can't be
// reached any more; stopped counts it.
func (c *cell) unwedge() {
	c.stage = moving
	e := c.tree.engine
	e.Registry.Remove(c.pid)
	e.Spawn(c.receiver, c.tree.kind, actor.WithID(c.pid.ID[len(c.tree.kind)+1:]),
		actor.WithInboxSize(2), actor.WithMaxRestarts(-1), actor.WithRestartDelay(0))
	e.Stop(c.pid)
}

// stopped hands the receiver its Stopped and ends the mailbox's part of the life.
func (c *cell) stopped(ctx *actor.Context) {
	c.stage = leaving
	defer c.leave() // a Goexit in Stopped must not keep the exit from being told
	defer c.settle()
	if c.inner != nil {
		c.guardStopped(ctx)
	}
}

func (c *cell) guardStopped(ctx *actor.Context) {
	returned := false
	defer func() {
		if returned {
			return
		}
		var reason error = ErrGoexit
		if v := recover(); v != nil {
			reason = caught(v)
		}
		if c.cause == nil {
			c.cause = reason
		}
	}()
	c.run(ctx)
	returned = true
}

func (c *cell) settle() {
	c.inner = nil
	c.cancel(ErrDown)
	if lost := c.state.Load() / credit; lost > 0 {
		c.tree.report(DeadLetter{Path: c.Path(), Gen: c.gen, Count: int(lost)})
	}
}

// leave is called by the receiver and by each work when it has ended. The last
// one tells the tree.
func (c *cell) leave() {
	if c.open.Add(-1) > 0 {
		return
	}
	if c.fuse != nil {
		c.fuse.Stop()
	}
	reason := c.cause
	if reason == nil {
		c.mu.Lock()
		reason = c.blame
		c.mu.Unlock()
	}
	if reason == nil && c.state.Load()&asked != 0 {
		reason = ErrShutdown
	}
	if c.end(reason) {
		c.tree.tell(lifeExited{c.m, c.gen, reason})
		return
	}
	c.tree.whole.remove(&c.Ref)
	c.tree.report(Exited{Path: c.Path(), Gen: c.gen, Reason: reason, Late: true})
}

func (c *cell) deadLetter(ctx *actor.Context) {
	if token := ctx.Sender(); token != nil {
		if token == c.tree.token || c.expired(token) {
			return
		}
		if ch := c.answered(token); ch != nil {
			ch <- answer{err: &DownError{Path: c.Path(), Reason: c.cause}}
		}
	}
	c.tree.report(DeadLetter{Path: c.Path(), Gen: c.gen, Msg: ctx.Message(), Count: 1})
}

// intercepted is run with faults.
func (c *cell) intercepted(ctx *actor.Context) {
	c.n++
	var lifecycle bool
	switch ctx.Message().(type) {
	case actor.Initialized, actor.Started, actor.Stopped:
		lifecycle = true
	}
	f := c.tree.intercept(c.Path(), c.gen, c.n, ctx.Message())
	switch f.Do {
	case Drop:
		if !lifecycle {
			return
		}
	case Delay:
		t := time.NewTimer(f.For)
		select {
		case <-t.C:
		case <-c.context().Done():
			t.Stop()
		}
	case Dup:
		if !lifecycle {
			c.inner.Receive(ctx)
			if c.stage == leaving {
				return
			}
		}
	case Panic:
		v := f.Value
		if v == nil {
			v = fmt.Sprintf("injected at message %d", c.n)
		}
		panic(v)
	case Goexit:
		runtime.Goexit()
	case Hang:
		if f.Until == nil {
			f.Until = c.context().Done()
		}
		<-f.Until
	}
	c.inner.Receive(ctx)
}
