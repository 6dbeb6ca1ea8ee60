package connections

import (
	"sync/atomic"
	"time"
)

// room is how much of a connection's bound is taken, in one life of its actor.
// Calls take and give it back without a message, because every call does; the
// actor decides when it ends. What is left behind by a crash is given back to a
// room that nobody enters any more.
type room struct {
	name  atomic.Pointer[string]
	taken atomic.Int64 // calls under way; shut when negative
	last  atomic.Int64 // unix nanoseconds of the last coming or going
}

const shut = -1 << 62

type entry int

const (
	admitted entry = iota
	full
	gone
)

// enter takes a place if there is one.
func (r *room) enter(limit int, name string, now time.Time) entry {
	for {
		n := r.taken.Load()
		switch {
		case n < 0:
			return gone
		case n >= int64(limit):
			return full
		}
		if r.taken.CompareAndSwap(n, n+1) {
			r.last.Store(now.UnixNano())
			if have := r.name.Load(); have == nil || *have != name {
				r.name.Store(&name)
			}
			return admitted
		}
	}
}

func (r *room) leave(now time.Time) {
	r.last.Store(now.UnixNano())
	r.taken.Add(-1)
}

// shutIfEmpty ends the room unless somebody is in it: nobody enters afterwards.
func (r *room) shutIfEmpty() bool { return r.taken.CompareAndSwap(0, shut) }

// shutNow ends the room whoever is in it.
func (r *room) shutNow() { r.taken.Add(shut) }
