package approvals

import (
	"context"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// Messages of a request's actor.
type (
	await struct{} // an Ask; the answer is the verdict
	// decide is an Ask; the answer is nil or an error.
	decide struct{ digest, outcome, by, reason string }
	// withdraw comes from a caller that has gone.
	withdraw struct{ reason string }
	expire   struct{}
	asked    struct{ err error }
	recorded struct{ err error }
)

// request is the actor of one request, and the one place where its answer is
// taken.
type request struct {
	core
	gate    *Gate
	caller  *supervise.Reply
	decider *supervise.Reply // whose answer is on its way to disk
}

func (r *request) Receive(c *actor.Context) {
	now := time.Now()
	switch m := c.Message().(type) {
	case actor.Started:
		r.put(c, r.row, func(err error) any { return asked{err} })
	case asked:
		r.do(c, r.core.asked(m.err, now))
	case await:
		reply := supervise.ReplyTo(c)
		r.caller = &reply
	case decide:
		reply := supervise.ReplyTo(c)
		next, err := r.core.decide(m.digest, m.outcome, m.by, m.reason, now)
		if err != nil {
			reply.Send(err)
		} else {
			r.decider = &reply
		}
		r.do(c, next)
	case withdraw:
		r.do(c, r.core.withdrawn(m.reason, now))
	case expire:
		r.do(c, r.core.expired(now))
	case recorded:
		r.do(c, r.core.recorded(m.err, now))
	}
}

// put writes beside the actor and comes back with what after makes of it.
func (r *request) put(c *actor.Context, row messages.ApprovalRow, after func(error) any) {
	store := r.gate.store
	supervise.Go(c, func(ctx context.Context) any { return after(store.Put(ctx, row)) })
}

func (r *request) do(c *actor.Context, s step) {
	if s.ask {
		supervise.After(c, time.Until(r.row.Expires), expire{})
		r.gate.opened(r.row.ApprovalRequest, supervise.Self(c))
	}
	if s.record != nil {
		row := r.row
		row.Verdict = s.record
		r.put(c, row, func(err error) any { return recorded{err} })
	}
	if s.close != nil {
		r.close(c, *s.close)
	}
}

// close tells the index and the trays first, so that whoever sees the answer
// finds the request gone from the list.
func (r *request) close(c *actor.Context, v messages.ApprovalVerdict) {
	r.gate.closed(v)
	if r.caller != nil {
		r.caller.Send(v)
	}
	if r.decider != nil {
		if v.Outcome == messages.OutcomeWithdrawn {
			r.decider.Send(problem.New("approval_not_recorded", "the answer to %s could not be recorded, so it does not count", v.ID).
				WithHint("Look at the daemon's log; the disk may be full."))
		} else {
			r.decider.Send(decided{})
		}
	}
	supervise.Exit(c, nil)
}

// decided is the good answer to decide.
type decided struct{}
