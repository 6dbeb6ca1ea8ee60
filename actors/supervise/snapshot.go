package supervise

import (
	"slices"
	"strings"
	"time"
)

// Status is one child in a Snapshot.
type Status struct {
	Path     string
	Gen      uint64    // 0: has not started yet
	State    string    // down, waiting, backoff, starting, up, marked (waits for its stop), stopping, abandoned
	Since    time.Time // of this State; zero for abandoned
	Restart  Restart
	Restarts int    // after failures of its own, in this life of its tree
	Queued   int    // messages that wait
	Refused  uint64 // ErrFulls of this life
	Strategy string // of a tree; empty for an actor
	Kids     []Status

	sub *Tree
}

// Snapshot lists the children in the order of their start, nested trees with
// theirs, and then those that were abandoned and still run. It is nil when the
// tree has ended.
func (t *Tree) Snapshot() []Status {
	out := t.snapshot()
	t.whole.mu.Lock()
	defer t.whole.mu.Unlock()
	n := len(out)
	for r := range t.whole.strays {
		if strings.HasPrefix(r.tree.path+"/", t.path+"/") {
			out = append(out, Status{Path: r.Path(), Gen: r.gen, State: "abandoned", Queued: r.queued(), Refused: r.refused.Load()})
		}
	}
	slices.SortFunc(out[n:], func(a, b Status) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func (t *Tree) snapshot() []Status {
	ch := make(chan []Status, 1)
	t.tell(snapshotReq{ch})
	var out []Status
	select {
	case out = <-ch:
	case <-t.done:
		return nil
	}
	for i, s := range out {
		if s.sub != nil {
			out[i].Kids = s.sub.snapshot()
		}
	}
	return out
}

func (r *Ref) queued() int { return int(max(r.state.Load()/credit, 0)) }

// statuses runs on the supervisor.
func (s *supervisor) statuses() []Status {
	out := make([]Status, 0, s.kids)
	for k := s.first; k != nil; k = k.next {
		m := k.m
		st := Status{
			Path: s.t.path + "/" + k.id, Gen: k.gen, State: k.life.String(), Since: s.t.epoch.Add(k.since),
			Restart: k.restart, Restarts: k.restarts,
		}
		if m.spec.Tree != nil {
			st.Strategy = m.spec.Tree.Policy.Strategy.String()
		}
		if m.ref != nil {
			st.Queued, st.Refused, st.sub = m.ref.queued(), m.ref.refused.Load(), m.ref.sub
		}
		out = append(out, st)
	}
	return out
}
