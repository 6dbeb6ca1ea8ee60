package custody

import (
	"context"
	"slices"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
)

// Keeper does what a custodian decides to do with files.
type Keeper interface {
	// Expired: a harness that starts with this credential would renew it.
	Expired(ctx context.Context, harness, real string) (bool, error)
	// Settle writes a renewed credential back, or says why not. It may be
	// called while the launch runs, and again.
	Settle(ctx context.Context, note messages.CredentialCopy) (messages.CredentialOutcome, error)
	// Written are the SHA-256 sums (hex) of what Settle has written to a real
	// file, or was about to when the daemon died.
	Written(real string) ([]string, error)
}

// lookAgain is how often the copies are looked at while a launch waits.
const lookAgain = 2 * time.Second

type (
	take   struct{ launch, harness string }
	copied struct{ note messages.CredentialCopy }
	giveUp struct{ launch string } // the launch never got so far as to have a copy
	back   struct{ note messages.CredentialCopy }

	// results of work beside the actor
	settled struct {
		launch  string
		outcome messages.CredentialOutcome
		err     error
		final   bool
		reply   supervise.Reply
	}
	judged struct {
		expired bool
		err     error
	}
	look struct{}
)

// ledger is what outlives a custodian's crash. Only its current life uses the
// loans.
type ledger struct {
	loans map[string]*messages.CredentialCopy // by launch; nil until it is copied
}

type waiter struct {
	take
	reply supervise.Reply
}

// custodian is the actor. Work on the file is done one at a time: busy.
type custodian struct {
	keeper  Keeper
	real    string
	ledger  *ledger
	waiting []waiter
	work    []func(ctx context.Context) any
	busy    bool
	looking bool // a look is under way or its timer runs
}

func (c *custodian) Receive(ctx *actor.Context) {
	switch m := ctx.Message().(type) {
	case take:
		if _, has := c.ledger.loans[m.launch]; has { // asked anew: the answer got lost
			supervise.ReplyTo(ctx).Send(nil)
			break
		}
		c.waiting = append(c.waiting, waiter{m, supervise.ReplyTo(ctx)})
		c.next(ctx)
	case copied:
		if _, ok := c.ledger.loans[m.note.Launch]; ok {
			c.ledger.loans[m.note.Launch] = &m.note
		}
		supervise.ReplyTo(ctx).Send(nil)
	case resume:
		c.ledger.loans[m.note.Launch] = &m.note
		supervise.ReplyTo(ctx).Send(nil)
	case giveUp:
		delete(c.ledger.loans, m.launch)
		c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool { return w.launch == m.launch })
		supervise.ReplyTo(ctx).Send(messages.CredentialOutcome{Outcome: messages.CredentialUnchanged})
		c.next(ctx)
	case back:
		note := m.note
		if known := c.ledger.loans[note.Launch]; known != nil {
			note = *known // it may have been written back before
		}
		reply := supervise.ReplyTo(ctx)
		c.do(ctx, func(ctx context.Context) any {
			out, err := c.keeper.Settle(ctx, note)
			return settled{note.Launch, out, err, true, reply}
		})
	case settled:
		c.busy = false
		c.settle(m)
		c.next(ctx)
	case judged:
		c.busy = false
		c.judge(ctx, m)
	case look:
		c.looking = false
		if len(c.waiting) > 0 {
			c.lookAtCopies(ctx)
		}
		c.next(ctx)
	}
	c.proceed(ctx)
	if len(c.ledger.loans) == 0 && len(c.waiting) == 0 && len(c.work) == 0 && !c.busy && asked(ctx.Message()) {
		supervise.Exit(ctx, nil)
	}
}

// asked: not the life's own beginning and end.
func asked(msg any) bool {
	switch msg.(type) {
	case actor.Initialized, actor.Started, actor.Stopped:
		return false
	}
	return true
}

// do queues work on the file.
func (c *custodian) do(ctx *actor.Context, work func(ctx context.Context) any) {
	c.work = append(c.work, work)
	c.proceed(ctx)
}

func (c *custodian) proceed(ctx *actor.Context) {
	if c.busy || len(c.work) == 0 {
		return
	}
	c.busy = true
	work := c.work[0]
	c.work = c.work[1:]
	supervise.Go(ctx, work)
}

// next lets the first of those who wait go, or finds out whether it may.
func (c *custodian) next(ctx *actor.Context) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool { return !w.reply.Wanted() })
	if len(c.waiting) == 0 {
		return
	}
	if len(c.ledger.loans) == 0 {
		c.lend()
		c.next(ctx)
		return
	}
	if c.looking || c.busy || len(c.work) > 0 {
		return // the timer, or a result, leads here again
	}
	harness, real := c.waiting[0].harness, c.real
	c.do(ctx, func(ctx context.Context) any {
		expired, err := c.keeper.Expired(ctx, harness, real)
		return judged{expired, err}
	})
}

func (c *custodian) lend() {
	w := c.waiting[0]
	c.waiting = c.waiting[1:]
	c.ledger.loans[w.launch] = nil
	w.reply.Send(nil)
}

func (c *custodian) judge(ctx *actor.Context, m judged) {
	switch {
	case len(c.waiting) == 0:
	case m.err != nil:
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		w.reply.Send(m.err)
		c.next(ctx)
	case m.expired && len(c.ledger.loans) > 0:
		c.looking = true
		supervise.After(ctx, lookAgain, look{})
	default:
		c.lend()
		c.next(ctx)
	}
}

// lookAtCopies settles every copy while its launch goes on, so that a renewed
// credential ends the wait of the others.
func (c *custodian) lookAtCopies(ctx *actor.Context) {
	for launch, note := range c.ledger.loans {
		if note == nil {
			continue
		}
		n := *note
		c.do(ctx, func(ctx context.Context) any {
			out, err := c.keeper.Settle(ctx, n)
			return settled{launch: launch, outcome: out, err: err}
		})
	}
}

func (c *custodian) settle(m settled) {
	if m.err == nil && m.outcome.Outcome == messages.CredentialWrittenBack {
		if note := c.ledger.loans[m.launch]; note != nil {
			note.SHA256 = m.outcome.SHA256
		}
	}
	if !m.final {
		return
	}
	if m.err != nil {
		m.reply.Send(m.err) // it has the copy still; Return may be called again
		return
	}
	delete(c.ledger.loans, m.launch)
	m.reply.Send(m.outcome)
}
