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

// Connections is the handle of the tree. Make its tree with Spec, or with
// supervise.Start and Policy. Its methods may be used from any goroutine, not inside a Receive.
type Connections struct {
	c    Config
	tree func() *supervise.Tree

	rooms sync.Map // connection → *room

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

// Enter takes one of the connection's places, making its actor if there is
// none. The returned func gives the place back; it may be called more than once.
func (s *Connections) Enter(ctx context.Context, a messages.Authority) (leave func(), err error) {
	for range 3 { // a life may end between finding and entering
		r, err := s.room(ctx, a)
		if err != nil {
			return nil, err
		}
		switch r.enter(s.c.InFlight, a.Name, time.Now()) {
		case admitted:
			var once atomic.Bool
			return func() {
				if once.CompareAndSwap(false, true) {
					r.leave(time.Now())
				}
			}, nil
		case full:
			return nil, tooMany(s.c.InFlight)
		}
	}
	return nil, problem.New(CodeDown, "the connection's actor does not stay up").WithHint("Try again in a moment.")
}

func tooMany(limit int) *problem.Error {
	return problem.New(CodeTooMany, "this connection has %d calls under way, which is as many as it may", limit).
		WithHint("Wait for one to end. Several reads in one go: sophia.execute_code.")
}

// room finds the room of the actor that is up, or starts one. Only one caller
// starts it; the others wait for that.
func (s *Connections) room(ctx context.Context, a messages.Authority) (*room, error) {
	for {
		if r, ok := s.rooms.Load(a.Connection); ok && r.(*room).taken.Load() >= 0 {
			return r.(*room), nil
		}
		tree := s.tree()
		if tree == nil {
			return nil, problem.New(CodeDown, "the daemon is starting or stopping").WithHint("Try again in a moment.")
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
		r, err := s.start(ctx, tree, a.Connection)
		s.mu.Lock()
		delete(s.making, a.Connection)
		s.mu.Unlock()
		close(wait)
		return r, err
	}
}

// start adds the actor, and waits out a life that is about to begin again or
// about to be forgotten.
func (s *Connections) start(ctx context.Context, tree *supervise.Tree, id string) (*room, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range 100 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-pause.C:
			pause.Reset(10 * time.Millisecond)
		}
		_, err := tree.Add(supervise.Spec{ID: id, Restart: supervise.Transient, Inbox: 16,
			New: func() actor.Receiver { return &connection{c: s.c, id: id, rooms: &s.rooms} }})
		if err != nil && !errors.Is(err, supervise.ErrExists) {
			return nil, problem.Wrap(err, CodeDown, "the connection's actor did not start").WithHint("Try again in a moment.")
		}
		if r, ok := s.rooms.Load(id); ok && r.(*room).taken.Load() >= 0 {
			return r.(*room), nil
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

// Active are the connections that have an actor now, by connection.
func (s *Connections) Active(context.Context) []Seen {
	var out []Seen
	s.rooms.Range(func(id, v any) bool {
		r := v.(*room)
		seen := Seen{Connection: id.(string), InFlight: int(max(r.taken.Load(), 0)), Last: time.Unix(0, r.last.Load()).UTC()}
		if name := r.name.Load(); name != nil {
			seen.Name = *name
		}
		out = append(out, seen)
		return true
	})
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
