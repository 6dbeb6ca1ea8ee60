package connections

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// Codes of what Enter refuses with.
const (
	CodeTooMany = "too_many_calls"
	CodeDown    = "connections_down"
)

// Config bounds each connection. Zero values take the defaults named.
type Config struct {
	InFlight int           // calls under way at once; 32
	Idle     time.Duration // without a call, after which the actor stops; 15 min
}

// Connections is the handle of the tree. Make the tree with Spec, or alone with
// Start. Its methods may be used from any goroutine, not inside a Receive.
type Connections struct {
	c    Config
	tree func() *supervise.Tree

	tokens atomic.Uint64

	mu     sync.Mutex
	making map[string]chan struct{} // who is being started
}

// ID is the tree's name among its siblings.
const ID = "connections"

// Policy is how the tree treats a connection's failures: one actor's crash is
// nobody else's affair, and thousands of connections must not give up because
// a few of them failed.
func Policy() supervise.Policy {
	return supervise.Policy{Strategy: supervise.OneForOne, Max: 100, Within: 10 * time.Second,
		Backoff: supervise.Backoff{Base: time.Millisecond, Max: time.Second, Jitter: 0.5}}
}

// Spec is the tree as a child of a larger one.
func Spec() supervise.Spec {
	return supervise.Spec{ID: ID, Restart: supervise.Permanent, Tree: &supervise.TreeSpec{Policy: Policy()}}
}

// New is the handle of a tree whose current life tree returns: nil while there
// is none. With Spec in a tree t, that is func() *supervise.Tree { return t.Sub(ID) }.
func New(c Config, tree func() *supervise.Tree) *Connections {
	if c.InFlight <= 0 {
		c.InFlight = 32
	}
	if c.Idle <= 0 {
		c.Idle = 15 * time.Minute
	}
	return &Connections{c: c, tree: tree, making: map[string]chan struct{}{}}
}

// Enter asks the connection's actor for room, making the actor if there is
// none. The returned func gives the room back; it may be called once or more.
func (s *Connections) Enter(ctx context.Context, a messages.Authority) (leave func(), err error) {
	for range 3 { // a life may end between finding and asking
		ref, err := s.ref(ctx, a)
		if err != nil {
			return nil, err
		}
		token := s.tokens.Add(1)
		_, err = ref.Ask(ctx, enter{token, a.Name})
		switch {
		case err == nil:
			return func() { giveBack(ref, token) }, nil
		case ctx.Err() != nil:
			giveBack(ref, token) // it may have been admitted all the same
			return nil, ctx.Err()
		case errors.Is(err, supervise.ErrDown):
			continue
		case errors.Is(err, supervise.ErrFull):
			return nil, tooMany(s.c.InFlight)
		default:
			return nil, err
		}
	}
	return nil, problem.New(CodeDown, "the connection's actor does not stay up").WithHint("Try again in a moment.")
}

// giveBack tells the life that admitted a call that it has ended. When that life
// is gone, so is its count.
func giveBack(ref *supervise.Ref, token uint64) {
	if errors.Is(ref.Send(left{token}), supervise.ErrFull) {
		time.AfterFunc(5*time.Millisecond, func() { giveBack(ref, token) })
	}
}

func tooMany(limit int) *problem.Error {
	return problem.New(CodeTooMany, "this connection has %d calls under way, which is as many as it may", limit).
		WithHint("Wait for one to end. Several reads in one go: sophia.execute_code.")
}

// ref finds the actor or starts it. Only one caller starts it; the others wait
// for that.
func (s *Connections) ref(ctx context.Context, a messages.Authority) (*supervise.Ref, error) {
	for {
		tree := s.tree()
		if tree == nil {
			return nil, problem.New(CodeDown, "the daemon is starting or stopping").WithHint("Try again in a moment.")
		}
		if ref := tree.Ref(a.Connection); ref != nil {
			return ref, nil
		}
		s.mu.Lock()
		wait, busy := s.making[a.Connection]
		if !busy {
			wait = make(chan struct{})
			s.making[a.Connection] = wait
		}
		s.mu.Unlock()
		if busy {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		ref, err := tree.Add(supervise.Spec{ID: a.Connection, Restart: supervise.Transient, Inbox: 4 * s.c.InFlight,
			New: func() actor.Receiver { return &connection{c: s.c} }})
		s.mu.Lock()
		delete(s.making, a.Connection)
		s.mu.Unlock()
		close(wait)
		switch {
		case errors.Is(err, supervise.ErrExists): // it is between two lives, or was started meanwhile
			return s.settled(ctx, tree, a.Connection)
		case err != nil:
			return nil, problem.Wrap(err, CodeDown, "the connection's actor did not start").WithHint("Try again in a moment.")
		}
		return ref, nil
	}
}

// settled waits for a life that is about to begin or about to be forgotten.
func (s *Connections) settled(ctx context.Context, tree *supervise.Tree, id string) (*supervise.Ref, error) {
	tick := time.NewTimer(time.Millisecond)
	defer tick.Stop()
	for range 100 {
		if ref := tree.Ref(id); ref != nil {
			return ref, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
			tick.Reset(10 * time.Millisecond)
		}
	}
	return nil, problem.New(CodeDown, "the connection's actor is restarting").WithHint("Try again in a moment.")
}

// Seen is a connection that has an actor now.
type Seen struct {
	Connection string    `json:"connection"`
	Name       string    `json:"name"`
	InFlight   int       `json:"in_flight"`
	Last       time.Time `json:"last_seen"`
}

// Active asks each actor what it knows, and returns them by connection.
func (s *Connections) Active(ctx context.Context) []Seen {
	tree := s.tree()
	if tree == nil {
		return nil
	}
	var out []Seen
	for _, child := range tree.Snapshot() {
		id := child.Path[strings.LastIndexByte(child.Path, '/')+1:]
		ref := tree.Ref(id)
		if ref == nil {
			continue
		}
		if v, err := ref.Ask(ctx, look{}); err == nil {
			seen := v.(Seen)
			seen.Connection = id
			out = append(out, seen)
		}
	}
	slices.SortFunc(out, func(a, b Seen) int { return strings.Compare(a.Connection, b.Connection) })
	return out
}

// Drop stops a connection's actor, as after a revocation.
func (s *Connections) Drop(ctx context.Context, id string) error {
	tree := s.tree()
	if tree == nil || tree.Ref(id) == nil {
		return nil
	}
	err := tree.Remove(ctx, id)
	if errors.Is(err, supervise.ErrUnknown) {
		return nil
	}
	return err
}
