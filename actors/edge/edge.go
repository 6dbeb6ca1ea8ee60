// Package edge has the daemon's listeners as actors: a socket is opened by a
// life's Started and drained when the life stops, so that a listener that fails
// is opened anew by its supervisor.
//
//	edge        OneForAll
//	├─ http     MCP, owner API, front page
//	├─ owner    the owner's socket
//	└─ broker   redemptions
//
// Fault row: killed at any point, all listeners are opened again on the same
// addresses; requests that were under way fail, and what they had written is
// there or not, as the store says.
//
// Imports: supervise.
package edge

import (
	"context"
	"fmt"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// Server is one open listener.
type Server interface {
	// Serve answers until Shutdown, and then returns nil.
	Serve() error
	// Shutdown stops accepting and waits for requests under way until ctx ends.
	Shutdown(ctx context.Context) error
}

// Listener is one child: Open makes a server for each life.
type Listener struct {
	ID   string
	Open func() (Server, error)
}

// ID is the tree's name among its siblings.
const ID = "edge"

// drain is how long requests under way may take when a listener stops.
const drain = 5 * time.Second

// Spec is the tree of the listeners.
func Spec(all ...Listener) supervise.Spec {
	tree := &supervise.TreeSpec{Policy: supervise.Policy{
		Strategy: supervise.OneForAll, Max: 5, Within: time.Minute,
		Backoff: supervise.Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.5},
	}}
	for _, l := range all {
		tree.Kids = append(tree.Kids, supervise.Spec{ID: l.ID, New: func() actor.Receiver { return &listener{open: l.Open} },
			Stop: supervise.Stop{Grace: time.Second, Kill: drain + time.Second}})
	}
	return supervise.Spec{ID: ID, Tree: tree}
}

type listener struct{ open func() (Server, error) }

type ended struct{ err error }

func (l *listener) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		s, err := l.open()
		if err != nil {
			supervise.Exit(c, err)
			return
		}
		supervise.Go(c, func(context.Context) any { return ended{s.Serve()} })
		supervise.Go(c, func(ctx context.Context) any {
			<-ctx.Done()
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			_ = s.Shutdown(bounded) // what did not end in time is cut off: Serve returns either way
			return nil
		})
	case ended:
		if m.err == nil {
			m.err = fmt.Errorf("edge: the listener ended by itself")
		}
		supervise.Exit(c, m.err)
	}
}
