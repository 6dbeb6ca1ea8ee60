package launch

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"sophia/actors/launches"
	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/messages"
)

// held is a verified harness, open from its hash to its start: the whole
// adopted tree, or a program alone. Launches of the same harness that overlap
// share one.
type held interface {
	// Guarded: the kernel guards every byte, so that Recheck is as good as
	// hashing again.
	Guarded() bool
	Recheck(ctx context.Context) error
	Close() error
}

// alone is a program that was not adopted with a tree.
type alone struct{ *harness.Held }

func (a alone) Guarded() bool                 { return a.Lease() == nil }
func (a alone) Recheck(context.Context) error { return a.Held.Recheck() }

// Prepare implements launches.Host.
func (h *Host) Prepare(ctx context.Context, p messages.Plan) (launches.Held, error) {
	l, err := h.holds.take(ctx, holdKey{p.Harness, p.HarnessTree, p.HarnessIdentity}, func(ctx context.Context) (held, error) { return h.hold(ctx, p) })
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Verify implements launches.Host. What was hashed ahead is good as long as the
// kernel has guarded it since; else all is hashed again.
func (h *Host) Verify(ctx context.Context, p messages.Plan, ahead launches.Held) (launches.Held, error) {
	if l, ok := ahead.(*lent); ok {
		if l.Guarded() && l.Recheck(ctx) == nil {
			return l, nil
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return h.Prepare(ctx, p)
}

// hold opens and verifies. Both harnesses run helpers of their tree by path:
// the tree is part of what was approved.
func (h *Host) hold(ctx context.Context, p messages.Plan) (held, error) {
	if p.HarnessTree == "" {
		program, err := h.Verifier.Verify(ctx, p.Harness, p.HarnessIdentity)
		if err != nil {
			return nil, err
		}
		return alone{program}, nil
	}
	c, err := h.Contracts.Get(p.Harness)
	if err != nil {
		return nil, err
	}
	root := h.Adopter.TreeOf(p.HarnessIdentity.Path)
	entry, err := filepath.Rel(root, p.HarnessIdentity.Path)
	if root == "" || err != nil {
		entry = "" // no such file: refused
	}
	tree, err := adopt.HoldTree(ctx, root, p.HarnessTree, filepath.ToSlash(entry), harness.Rules{Linking: c.Linking})
	if err != nil {
		return nil, err
	}
	if err := h.Verifier.Judge(ctx, c, tree.Entry(), p.HarnessIdentity); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// holds are the harnesses that are held at the moment, by what was recorded of
// them. The zero value is ready.
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

// Close gives the share up; the last one closes the harness.
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

func (s *holds) drop(h *shared) error {
	s.mu.Lock()
	h.users--
	last := h.users == 0
	if last && s.open[h.key] == h {
		delete(s.open, h.key)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	<-h.done
	if h.err != nil {
		return nil
	}
	return h.held.Close()
}
