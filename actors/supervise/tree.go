package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// Tree is one life of a supervision tree. Its methods may be used from any
// goroutine; those that wait (Add, Remove, Stop) not inside Receive.
type Tree struct {
	engine    *actor.Engine
	path      string // for people
	kind      string // for PIDs: path, with the generation of each nested tree
	pid       *actor.PID
	policy    Policy
	intercept Interceptor
	token     *actor.PID // marks messages from the tree's own machinery
	whole     *whole     // shared with the trees above and below
	parent    *Tree
	m         *member // in the parent
	ref       *Ref    // of this tree, in the parent
	epoch     time.Time

	mu      sync.RWMutex
	members map[string]*member

	booted chan struct{}
	done   chan struct{}
	err    error
}

// member is a child as the supervisor's shell knows it.
type member struct {
	kid
	spec  Spec
	ref   *Ref
	timer *time.Timer // back-off, grace or kill
	cut   bool        // grace is over
	added chan<- result
	freed []chan<- struct{} // Remove calls that wait
}

type result struct {
	ref *Ref
	err error
}

// Start starts a tree and returns when all children have handled their Started;
// each is started when the one before has. When one does not start, Start stops
// those that did and returns a *StartError (or the *GaveUpError, when an earlier
// child kept failing meanwhile). path names the tree in events and must be
// unique on the engine.
func Start(e *actor.Engine, path string, p Policy, kids ...Spec) (*Tree, error) {
	spec := &TreeSpec{Policy: p, Kids: kids}
	if err := spec.check(); err != nil {
		return nil, err
	}
	if path == "" || strings.Contains(path, "#") {
		return nil, fmt.Errorf("supervise: the path %q is empty or contains #", path)
	}
	t := newTree(e, path, path, p)
	t.whole = &whole{strays: make(map[*Ref]struct{})}
	if !t.spawn(kids) {
		return nil, fmt.Errorf("supervise: a tree at %q: %w", path, ErrExists)
	}
	select {
	case <-t.booted:
		return t, nil
	case <-t.done:
		if t.err == nil {
			return nil, ErrShutdown
		}
		return nil, t.err
	}
}

func newTree(e *actor.Engine, path, kind string, p Policy) *Tree {
	return &Tree{
		engine: e, path: path, kind: kind, policy: p, intercept: p.Intercept,
		token: new(actor.PID), epoch: time.Now(), members: make(map[string]*member),
		booted: make(chan struct{}), done: make(chan struct{}),
	}
}

func nest(parent *Tree, m *member) *Tree {
	p := m.spec.Tree.Policy
	if p.Report == nil {
		p.Report = parent.policy.Report
	}
	if p.Intercept == nil {
		p.Intercept = parent.policy.Intercept
	}
	kind := parent.kind + "/" + m.id + "#" + strconv.FormatUint(m.gen, 10)
	t := newTree(parent.engine, parent.path+"/"+m.id, kind, p)
	t.whole, t.parent, t.m = parent.whole, parent, m
	return t
}

// Path is the ID of the tree, below those of the trees that it is part of.
func (t *Tree) Path() string { return t.path }

// Add starts one more child, after all others, and returns when it has handled
// its Started, or why it did not (*StartError). It is forgotten when it ends for
// good, and not part of a later life of this tree. When the child is a tree, its
// handle is Ref.Tree.
func (t *Tree) Add(s Spec) (*Ref, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	out := make(chan result, 1)
	t.tell(addChild{s, out})
	select {
	case r := <-out:
		return r.ref, r.err
	case <-t.done:
		return nil, ErrDown
	}
}

// Remove stops a child and forgets it. It returns when the child has exited or
// was abandoned; when ctx ends first the stop goes on.
func (t *Tree) Remove(ctx context.Context, id string) error {
	out, free := make(chan error, 1), make(chan struct{}, 1)
	t.tell(removeChild{id, out, free})
	select {
	case err := <-out:
		if err != nil {
			return err
		}
	case <-t.done:
		return nil
	}
	select {
	case <-free:
		return nil
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ref returns the current life of a descendant, or nil when it has none. id is
// a child's ID, or IDs joined by "/" to reach into nested trees.
func (t *Tree) Ref(id string) *Ref {
	id, rest, nested := strings.Cut(id, "/")
	t.mu.RLock()
	var r *Ref
	if m := t.members[id]; m != nil {
		r = m.ref
	}
	t.mu.RUnlock()
	if !nested || r == nil {
		return r
	}
	if r.sub == nil {
		return nil
	}
	return r.sub.Ref(rest)
}

// Sub returns the current life of a nested tree, or nil when it has none. id is
// as for Ref.
func (t *Tree) Sub(id string) *Tree {
	if r := t.Ref(id); r != nil {
		return r.sub
	}
	return nil
}

// Stop ends the tree: children stop last to first, one at a time, each within
// its own times. It returns the paths of descendants that were abandoned and
// still run, and the context's error when that ended before the tree did (the
// stop goes on).
func (t *Tree) Stop(ctx context.Context) (unstopped []string, err error) {
	t.tell(stopTree{})
	select {
	case <-t.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return t.whole.below(t.path), err
}

// Done is closed when the tree has ended and its children have exited or were
// abandoned.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Err is why the tree has ended: a *GaveUpError, a *StartError, or nil when it
// was stopped or still runs.
func (t *Tree) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

// tell sends to the supervisor. After the end nobody listens.
func (t *Tree) tell(msg any) {
	select {
	case <-t.done:
	default:
		t.engine.SendLocal(t.pid, msg, nil)
	}
}

// report calls the hook and contains what it does.
func (t *Tree) report(e Event) {
	if t.policy.Report == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			slog.Error("supervise: the report hook panicked", "event", e.String(), "panic", v)
		}
	}()
	t.policy.Report(e)
}

// whole is what a tree shares with its nested trees.
type whole struct {
	lives  atomic.Uint64 // started so far
	mu     sync.Mutex
	strays map[*Ref]struct{} // abandoned and not ended yet
}

func (s *whole) add(r *Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays[r] = struct{}{}
}

func (s *whole) remove(r *Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strays, r)
}

// below returns the sorted paths of the strays of a tree.
func (s *whole) below(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for r := range s.strays {
		if strings.HasPrefix(r.tree.path+"/", path+"/") {
			out = append(out, r.Path()+"#"+strconv.FormatUint(r.gen, 10))
		}
	}
	slices.Sort(out)
	return out
}
