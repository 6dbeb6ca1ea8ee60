package supervise

import (
	"time"

	"github.com/anthdm/hollywood/actor"
)

// Timer is a message to come, owned by one life: it dies with it.
type Timer struct {
	ref     *Ref
	token   *actor.PID // travels as the sender, so that the cell can drop it
	t       *time.Timer
	stopped bool
}

// After sends msg to this actor when d has passed.
func After(c *actor.Context, d time.Duration, msg any) *Timer {
	r := Self(c)
	t := &Timer{ref: r, token: new(actor.PID)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		t.stopped = true
		t.t = time.NewTimer(0)
		t.t.Stop()
		return t
	}
	x := r.extra()
	if x.timers == nil {
		x.timers = make(map[*actor.PID]*Timer)
	}
	x.timers[t.token] = t
	t.t = time.AfterFunc(d, func() {
		if !r.post(msg, t.token) {
			t.forget()
		}
	})
	return t
}

// Stop takes the message back. Called by the actor itself it is exact: after it
// the message does not arrive, even if it was queued already. It reports
// whether the message had not been handled yet.
func (t *Timer) Stop() bool {
	r := t.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.stopped || r.more == nil || r.more.timers[t.token] == nil {
		return false
	}
	t.stopped = true
	if t.t.Stop() {
		delete(r.more.timers, t.token)
	}
	return true
}

func (t *Timer) forget() {
	t.ref.mu.Lock()
	defer t.ref.mu.Unlock()
	if t.ref.more != nil {
		delete(t.ref.more.timers, t.token)
	}
}

// expired takes a fired timer off the list and reports whether its message is
// void. A token that is no timer's is an ask's.
func (r *Ref) expired(token *actor.PID) (void bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more == nil {
		return false
	}
	t := r.more.timers[token]
	if t == nil {
		return false
	}
	delete(r.more.timers, token)
	return t.stopped
}
