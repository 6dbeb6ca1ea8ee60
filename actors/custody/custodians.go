package custody

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
)

type resume struct{ note messages.CredentialCopy }

// Custodians finds or starts the custodian of a file. Its methods block; they
// are for the goroutines of supervise.Go.
type Custodians struct {
	keeper Keeper
	tree   func() *supervise.Tree

	mu      sync.Mutex
	ledgers map[string]*ledger // by real path
}

// Spec is the tree of custodians, a child of the daemon's tree.
func Spec(id string) supervise.Spec {
	return supervise.Spec{ID: id, Tree: &supervise.TreeSpec{Policy: supervise.Policy{Strategy: supervise.OneForOne, Max: 20, Within: time.Minute}}}
}

// New returns the custodians in a tree, which tree finds at each call (nil:
// down at the moment).
func New(tree func() *supervise.Tree, keeper Keeper) *Custodians {
	return &Custodians{keeper: keeper, tree: tree, ledgers: map[string]*ledger{}}
}

// Take lends the credential to a launch. It returns when the launch may copy
// it, or ctx's error.
func (c *Custodians) Take(ctx context.Context, launch, harness, real string) error {
	_, err := c.ask(ctx, real, take{launch, harness})
	if ctx.Err() != nil {
		// It may have been lent at the very moment. Nobody waits for this.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(ctx.Err(), c.GiveUp(late, launch, real))
	}
	return err
}

// Copied tells where the copy is. It is to be called as soon as it is made.
func (c *Custodians) Copied(ctx context.Context, note messages.CredentialCopy) error {
	_, err := c.ask(ctx, note.Real, copied{note})
	return err
}

// Resume is Take and Copied for a launch that a restarted daemon found.
func (c *Custodians) Resume(ctx context.Context, note messages.CredentialCopy) error {
	_, err := c.ask(ctx, note.Real, resume{note})
	return err
}

// Return ends the loan. On an error nothing is decided: the overlay must be
// kept, and Return may be called again.
func (c *Custodians) Return(ctx context.Context, note messages.CredentialCopy) (messages.CredentialOutcome, error) {
	v, err := c.ask(ctx, note.Real, back{note})
	out, _ := v.(messages.CredentialOutcome)
	return out, err
}

// GiveUp ends the loan of a launch that never had a copy.
func (c *Custodians) GiveUp(ctx context.Context, launch, real string) error {
	_, err := c.ask(ctx, real, giveUp{launch})
	return err
}

// Written are the SHA-256 sums of what was written back to a real file, also by
// an earlier daemon. Evidence needs them: such a change was Sophia's.
func (c *Custodians) Written(real string) ([]string, error) { return c.keeper.Written(real) }

// ask reaches the custodian, starting it if there is none. All its messages
// may be repeated, so one that ended in between is asked anew.
func (c *Custodians) ask(ctx context.Context, real string, msg any) (any, error) {
	for {
		ref, err := c.custodian(ctx, real)
		if err != nil {
			return nil, err
		}
		if ref != nil {
			v, err := ref.Ask(ctx, msg)
			if !errors.Is(err, supervise.ErrDown) {
				return v, err
			}
		}
		// It is ending, or restarting: its name is free, or it runs again, soon.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// custodian returns nil without an error when it is neither up nor down.
func (c *Custodians) custodian(ctx context.Context, real string) (*supervise.Ref, error) {
	tree := c.tree()
	if tree == nil {
		return nil, ctx.Err()
	}
	sum := sha256.Sum256([]byte(real))
	id := hex.EncodeToString(sum[:8])
	if ref := tree.Ref(id); ref != nil {
		return ref, nil
	}
	c.mu.Lock()
	l := c.ledgers[real]
	if l == nil {
		l = &ledger{loans: map[string]*messages.CredentialCopy{}}
		c.ledgers[real] = l
	}
	c.mu.Unlock()
	ref, err := tree.Add(supervise.Spec{ID: id, Restart: supervise.Transient, Inbox: 256, New: func() actor.Receiver {
		return &custodian{keeper: c.keeper, real: real, ledger: l}
	}})
	switch {
	case errors.Is(err, supervise.ErrExists):
		return nil, ctx.Err()
	case errors.Is(err, supervise.ErrDown):
		if ctx.Err() == nil && c.tree() == tree {
			return nil, supervise.ErrDown // the daemon is stopping
		}
		return nil, ctx.Err()
	}
	return ref, err
}
