package supervise

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/anthdm/hollywood/actor"
)

// Ref sends to one life of a supervised actor. It does not follow a restart:
// that is what Lookup is for. It may be used from any goroutine.
type Ref struct {
	// state is the number of messages accepted and not yet taken from the inbox,
	// times credit, plus the flags below. One word, so that closing and sending
	// have an order: every accepted message is ahead of the stop in the inbox.
	state   atomic.Int64
	refused atomic.Uint64
	tree    *Tree
	sub     *Tree // when the child is a tree
	pid     *actor.PID
	id      string
	gen     uint64
	limit   int64

	mu     sync.Mutex
	ended  bool // the life is over, or abandoned
	reason error
	blame  error   // the reason when the receiver itself has none: of its work, or its slow start
	more   *extras // what most actors never need
}

type extras struct {
	asks     map[*actor.PID]chan answer
	timers   map[*actor.PID]*Timer
	monitors []*Ref
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

const (
	closed = 1 << iota // accepts nothing more
	asked              // because the tree wants it
	cut                // what is queued is not to be handled
	credit
)

// Path is the ID of the tree and of its descendants down to this actor.
func (r *Ref) Path() string { return r.tree.path + "/" + r.id }

// Gen numbers the lives of the whole tree in the order of their starts.
func (r *Ref) Gen() uint64 { return r.gen }

// Tree returns the tree behind this Ref when the child is a tree, or nil.
func (r *Ref) Tree() *Tree { return r.sub }

func (r *Ref) String() string { return r.Path() }

// Send hands msg to the actor and does not wait. It returns ErrDown when the
// actor takes no more messages and ErrFull when its inbox is full. An accepted
// message is handled, or reported as a DeadLetter.
func (r *Ref) Send(msg any) error { return r.send(msg, nil) }

func (r *Ref) send(msg any, sender *actor.PID) error {
	switch msg.(type) {
	case actor.Initialized, actor.Started, actor.Stopped:
		return errReserved
	}
	for {
		s := r.state.Load()
		if s&closed != 0 {
			return ErrDown
		}
		if s >= r.limit*credit {
			r.full()
			return ErrFull
		}
		if r.state.CompareAndSwap(s, s+credit) {
			r.tree.engine.SendLocal(r.pid, msg, sender)
			return nil
		}
	}
}

// post is send for messages that the life itself caused (timers, results of its
// work, Downs that it asked for). Their number is bounded by that, so they are
// not refused for lack of room.
func (r *Ref) post(msg any, sender *actor.PID) bool {
	for {
		s := r.state.Load()
		if s&closed != 0 {
			return false
		}
		if r.state.CompareAndSwap(s, s+credit) {
			r.tree.engine.SendLocal(r.pid, msg, sender)
			return true
		}
	}
}

// took gives back the credit of a message that left the inbox and returns the
// state. The last one after the close lets the stop through.
func (r *Ref) took() int64 {
	s := r.state.Add(-credit)
	if s&closed != 0 && s/credit == 0 {
		r.tree.engine.Stop(r.pid)
	}
	return s
}

// close accepts no further message and sends the one pill of this life once
// everything that was accepted is ahead of it.
func (r *Ref) close(flags int64) {
	if old := r.state.Or(closed | flags); old&closed == 0 && old/credit <= 0 {
		r.tree.engine.Stop(r.pid)
	}
}

func (r *Ref) full() {
	if n := r.refused.Add(1); bits.OnesCount64(n) == 1 {
		r.tree.report(Full{Path: r.Path(), Gen: r.gen, Limit: int(r.limit), Refused: n})
	}
}

// extra returns the extras. r.mu is held.
func (r *Ref) extra() *extras {
	if r.more == nil {
		r.more = new(extras)
	}
	return r.more
}

// context returns the context of this life.
func (r *Ref) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.extra()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(context.Background())
		if r.ended {
			x.cancel(ErrDown)
		} else if r.state.Load()&cut != 0 {
			x.cancel(ErrShutdown)
		}
	}
	return x.ctx
}

// cancel ends the context of this life.
func (r *Ref) cancel(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more != nil && r.more.cancel != nil {
		r.more.cancel(cause)
	}
}

// end declares the life over, once: it fails the open asks, stops the timers,
// ends the context and tells the monitors. It reports whether it was the first.
func (r *Ref) end(reason error) bool {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return false
	}
	r.ended, r.reason = true, reason
	x := r.more
	r.more = nil
	r.mu.Unlock()
	if x == nil {
		return true
	}
	r.fail(x.asks, reason)
	for _, t := range x.timers {
		t.t.Stop()
	}
	if x.cancel != nil {
		x.cancel(ErrDown)
	}
	for _, to := range x.monitors {
		to.post(Down{Ref: r, Reason: reason}, nil)
	}
	return true
}

// Down is what a monitor receives: Ref's life is over.
type Down struct {
	Ref    *Ref
	Reason error // nil is normal, ErrShutdown is the tree's wish
}

// Monitor sends to one Down when this life is over; at once when it already is.
func (r *Ref) Monitor(to *Ref) {
	r.mu.Lock()
	if r.ended {
		reason := r.reason
		r.mu.Unlock()
		to.post(Down{Ref: r, Reason: reason}, nil)
		return
	}
	defer r.mu.Unlock()
	x := r.extra()
	if len(x.monitors) == cap(x.monitors) { // before growing, let go of those that are down
		live := x.monitors[:0]
		for _, m := range x.monitors {
			if m.state.Load()&closed == 0 {
				live = append(live, m)
			}
		}
		clear(x.monitors[len(live):])
		x.monitors = live
	}
	x.monitors = append(x.monitors, to)
}
