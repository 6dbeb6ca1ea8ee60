package launch

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/messages"
)

// linger is how long a harness stays held after its last launch.
const linger = 10 * time.Minute

// holds are the harnesses that are held at the moment, by what was recorded of
// them. Launches that overlap share one, and the next within linger has it too:
// what the kernel has guarded since it was hashed need not be hashed again. The
// zero value is ready.
type holds struct {
	mu   sync.Mutex
	open map[holdKey]*shared
}

type holdKey struct {
	harness, tree string
	identity      messages.FileIdentity
}

type shared struct {
	held
	key   holdKey
	users int           // guarded by holds.mu
	idle  *time.Timer   // guarded by holds.mu: since the last user left
	done  chan struct{} // held and err are set
	err   error
}

// lent is one launch's share of a held harness.
type lent struct {
	*shared
	holds *holds
	once  sync.Once
	err   error
}

// Close gives the share up.
func (l *lent) Close() error {
	l.once.Do(func() { l.err = l.holds.drop(l.shared) })
	return l.err
}

// take returns a share of what is held for key, by open where nothing is held,
// or what is held is no longer known to be what was hashed.
func (s *holds) take(ctx context.Context, key holdKey, open func(context.Context) (held, error)) (*lent, error) {
	for {
		h, first := s.join(key)
		if first {
			h.held, h.err = open(ctx)
			if h.err != nil || !h.Guarded() {
				s.forget(h)
			}
			close(h.done)
			if h.err != nil {
				return nil, h.err
			}
			return &lent{shared: h, holds: s}, nil
		}
		select {
		case <-h.done:
		case <-ctx.Done():
			go s.drop(h) // the last one waits for the hash to close it
			return nil, ctx.Err()
		}
		if h.err == nil && h.Guarded() && h.Recheck(ctx) == nil {
			return &lent{shared: h, holds: s}, nil
		}
		s.forget(h)
		refusal := h.err
		if errors.Is(refusal, context.Canceled) || errors.Is(refusal, context.DeadlineExceeded) {
			refusal = nil // another launch's end is not this one's
		}
		if err := errors.Join(refusal, s.drop(h)); err != nil {
			return nil, err
		}
	}
}

func (s *holds) join(key holdKey) (h *shared, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.open[key]; h == nil {
		first = true
		h = &shared{key: key, done: make(chan struct{})}
		if s.open == nil {
			s.open = map[holdKey]*shared{}
		}
		s.open[key] = h
	}
	if h.idle != nil {
		h.idle.Stop()
	}
	h.users++
	return h, first
}

// forget lets no one else share h.
func (s *holds) forget(h *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[h.key] == h {
		delete(s.open, h.key)
	}
}

// drop gives one share up. What others may still share lingers.
func (s *holds) drop(h *shared) error {
	s.mu.Lock()
	h.users--
	last := h.users == 0
	lingers := last && s.open[h.key] == h
	if lingers {
		h.idle = time.AfterFunc(linger, func() { s.release(h) })
	}
	s.mu.Unlock()
	if !last || lingers {
		return nil
	}
	<-h.done
	if h.err != nil {
		return nil
	}
	return h.held.Close()
}

// release closes h if it is held for nobody.
func (s *holds) release(h *shared) {
	s.mu.Lock()
	idle := h.users == 0 && s.open[h.key] == h
	if idle {
		h.idle.Stop()
		delete(s.open, h.key)
	}
	s.mu.Unlock()
	if idle {
		_ = h.held.Close() // descriptors that were read from
	}
}

// Spec is the actor that gives a harness up when somebody wants to write to it,
// as soon as no launch holds it: until then the kernel lets the writer wait
// (fcntl(2), Leases).
func (h *Host) Spec(id string) supervise.Spec {
	return supervise.Spec{ID: id, Restart: supervise.Permanent, New: func() actor.Receiver { return attendant{h} }}
}

type attendant struct{ host *Host }

func (a attendant) Receive(c *actor.Context) {
	if _, ok := c.Message().(actor.Started); ok {
		supervise.Go(c, func(ctx context.Context) any { a.host.holds.attend(ctx); return nil })
	}
}

func (s *holds) attend(ctx context.Context) {
	breaks := make(chan os.Signal, 1)
	signal.Notify(breaks, unix.SIGIO)
	defer signal.Stop(breaks)
	for {
		s.yield(ctx)
		select {
		case <-breaks:
		case <-ctx.Done():
			return
		}
	}
}

// yield lets nobody share what changes or is wanted for writing any more: it is
// closed with its last user, at once if it has none.
func (s *holds) yield(ctx context.Context) {
	s.mu.Lock()
	var open []*shared
	for _, h := range s.open {
		select {
		case <-h.done:
			h.users++ // as long as it is looked at
			open = append(open, h)
		default: // it is being hashed, and looked at after that
		}
	}
	s.mu.Unlock()
	for _, h := range open {
		if h.Recheck(ctx) != nil {
			s.forget(h)
		}
		_ = s.drop(h) // descriptors that were read from
	}
}
