package launch

import (
	"context"
	"errors"
	"path/filepath"

	"sophia/actors/launches"
	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/messages"
)

// held is a verified harness, open from its hash to its start: the whole
// adopted tree, or a program alone.
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
		h.holds.forget(l.shared)
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
