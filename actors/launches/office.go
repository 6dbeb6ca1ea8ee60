package launches

import (
	"context"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// Spec is the subtree of all launches, for the daemon's tree: two actors that
// serve the launches, and the launches as they come.
func (s *Service) Spec() supervise.Spec {
	return supervise.Spec{ID: "launches", Tree: &supervise.TreeSpec{
		Policy: supervise.Policy{Max: s.o.Restarts, Within: s.o.RestartWindow, Backoff: supervise.Backoff{Base: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: 0.5}},
		Kids: []supervise.Spec{
			{ID: idReaper, New: func() actor.Receiver { return &reaper{s} }},
			{ID: idReconciler, Restart: supervise.Transient, New: func() actor.Receiver { return &reconciler{s} }},
		},
	}}
}

const (
	idReaper     = "reaper"
	idReconciler = "reconciler"
)

// reaper removes the subtrees of launches that have ended, and is the first to
// know which life of the tree this is.
type reaper struct{ s *Service }

type reap struct{ launch string }

// over has a launch's subtree removed by somebody who is not part of it.
func (s *Service) over(launch string) {
	if tree := s.tree.Load(); tree != nil {
		_ = tree.Lookup(idReaper).Send(reap{launch}) // down: the whole tree is going
	}
}

func (r *reaper) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		r.s.open.Store(false)
		r.s.tree.Store(supervise.Home(c))
	case reap:
		tree := supervise.Home(c)
		supervise.Go(c, func(ctx context.Context) any {
			_ = tree.Remove(ctx, m.launch) // ErrUnknown: it gave up by itself
			return nil
		})
	}
}

// reconciler takes up what an earlier life of the tree left, and ends.
type reconciler struct{ s *Service }

type reconciled struct{ err error }

func (r *reconciler) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		supervise.Go(c, func(ctx context.Context) any { return reconciled{r.s.reconcile(ctx)} })
	case reconciled:
		if m.err != nil {
			r.s.o.Log.Error("launches not reconciled", "err", m.err)
		}
		supervise.Exit(c, m.err)
	}
}
