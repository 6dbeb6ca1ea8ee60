package supervise

import (
	"context"

	"github.com/anthdm/hollywood/actor"
)

type answer struct {
	v   any
	err error
}

// Ask sends msg and waits for the actor's Reply. It returns an error value that
// was sent as the answer as its error; ErrFull or ErrDown itself when the message
// was not accepted; a *DownError, which matches ErrDown, as soon as the actor
// exits without having answered (it may have acted, or not); and the context's
// error when that ends first. Not for use inside Receive.
func (r *Ref) Ask(ctx context.Context, msg any) (any, error) {
	ch := make(chan answer, 1)
	token := new(actor.PID) // travels as the sender; its address is the ask's identity
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil, ErrDown
	}
	x := r.extra()
	if x.asks == nil {
		x.asks = make(map[*actor.PID]chan answer)
	}
	x.asks[token] = ch
	r.mu.Unlock()

	if err := r.send(msg, token); err != nil {
		r.answered(token)
		return nil, err
	}
	select {
	case a := <-ch:
		return a.v, a.err
	case <-ctx.Done():
		if r.answered(token) == nil { // answered at that moment: what Send has handed over arrives
			a := <-ch
			return a.v, a.err
		}
		return nil, ctx.Err()
	}
}

// Reply answers one Ask. It may be kept, handed to other goroutines, and used
// after the Receive that it came from. Only the first answer counts.
type Reply struct {
	ref   *Ref
	token *actor.PID
}

// ReplyTo returns the Reply for the message that is being received. For a
// message that nobody asked, its Send does nothing.
func ReplyTo(c *actor.Context) Reply {
	return Reply{ref: Self(c), token: c.Sender()}
}

// Send answers with v. An error value makes Ask return it as its error. It says
// whether v was handed over: false means that nobody waits any more and v is the
// caller's still.
func (p Reply) Send(v any) bool {
	if p.token == nil {
		return false
	}
	if ch := p.ref.answered(p.token); ch != nil {
		err, failed := v.(error)
		if failed {
			v = nil
		}
		ch <- answer{v, err}
		return true
	}
	return false
}

// Wanted reports whether somebody still waits for this answer.
func (p Reply) Wanted() bool {
	if p.token == nil {
		return false
	}
	p.ref.mu.Lock()
	defer p.ref.mu.Unlock()
	return p.ref.more != nil && p.ref.more.asks[p.token] != nil
}

// answered takes an open ask off the list.
func (r *Ref) answered(token *actor.PID) chan answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more == nil {
		return nil
	}
	ch := r.more.asks[token]
	delete(r.more.asks, token)
	return ch
}

// failAsks ends all open asks.
func (r *Ref) failAsks(reason error) {
	r.mu.Lock()
	var asks map[*actor.PID]chan answer
	if r.more != nil {
		asks, r.more.asks = r.more.asks, nil
	}
	r.mu.Unlock()
	r.fail(asks, reason)
}

func (r *Ref) fail(asks map[*actor.PID]chan answer, reason error) {
	for _, ch := range asks {
		ch <- answer{err: &DownError{Path: r.Path(), Reason: reason}}
	}
}
