package connections

import (
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// Messages of a connection's actor.
type (
	// enter is an Ask that an error answers when there is no room. The token is
	// the caller's, so that it can give back what it never heard of getting.
	enter struct {
		token uint64
		name  string
	}
	left struct{ token uint64 }
	look struct{} // an Ask; the answer is a Seen
	idle struct{}
)

// connection is one life of a connection's actor. There is one timer, set again
// when it fires too early, instead of one reset per call.
type connection struct {
	c     Config
	name  string
	last  time.Time
	under map[uint64]struct{} // nil while nothing is under way
}

func (n *connection) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		n.last = time.Now()
		supervise.After(c, n.c.Idle, idle{})
	case enter:
		n.name, n.last = m.name, time.Now()
		reply := supervise.ReplyTo(c)
		if len(n.under) >= n.c.InFlight {
			reply.Send(tooMany(n.c.InFlight))
			return
		}
		if n.under == nil {
			n.under = map[uint64]struct{}{}
		}
		n.under[m.token] = struct{}{}
		reply.Send(nil)
	case left:
		n.last = time.Now()
		if delete(n.under, m.token); len(n.under) == 0 {
			n.under = nil
		}
	case look:
		supervise.ReplyTo(c).Send(Seen{Name: n.name, InFlight: len(n.under), Last: n.last})
	case idle:
		if rest := n.c.Idle - time.Since(n.last); rest > 0 || n.under != nil {
			supervise.After(c, max(rest, time.Second), idle{})
			return
		}
		supervise.Exit(c, nil)
	}
}
