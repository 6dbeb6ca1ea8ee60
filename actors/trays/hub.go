package trays

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// MaxQueue is how many events may wait for one subscriber.
const MaxQueue = 256

// errSlow ends a subscriber's actor.
var errSlow = fmt.Errorf("trays: more than %d events wait", MaxQueue)

// dropped is what the subscriber is told.
func dropped(cause error) error {
	return problem.Wrap(cause, "tray_dropped", "the daemon no longer tells this tray, which fell behind").
		WithHint("Connect again; what is open is told again.")
}

// Tree finds the tree that the hub starts its actors in, as it is now: a nested
// tree has several lives. nil means that it has none at the moment.
type Tree func() *supervise.Tree

// Policy is how the hub's tree treats failures: each subscriber is on its own,
// and subscribes again by itself.
func Policy() supervise.Policy { return supervise.Policy{Strategy: supervise.OneForOne} }

// Hub is where trays listen.
type Hub struct {
	tree Tree
	open func(context.Context) ([]messages.ApprovalRequest, error)
	next atomic.Uint64

	mu   sync.Mutex
	refs map[string]subscription
}

type subscription struct {
	ref  *supervise.Ref
	tree *supervise.Tree
}

// New makes a hub over a tree with the policy Policy and no children. open is what waits for the
// owner, as actors/approvals.Gate.List.
func New(tree Tree, open func(context.Context) ([]messages.ApprovalRequest, error)) *Hub {
	return &Hub{tree: tree, open: open, refs: map[string]subscription{}}
}

// Publish tells every subscriber. It does not block.
func (h *Hub) Publish(e messages.TrayEvent) {
	h.mu.Lock()
	refs := maps.Clone(h.refs)
	h.mu.Unlock()
	for id, s := range refs {
		if s.ref.Send(publish{e}) != nil { // down already, or so far behind that even its inbox is full
			h.drop(id)
		}
	}
}

// Subscribers is how many listen now.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.refs)
}

// Subscribe adds a subscriber. The first Next of its feed returns at once with
// what is open, which may be nothing.
func (h *Hub) Subscribe(ctx context.Context, name string) (*Feed, error) {
	id := fmt.Sprintf("tray-%d", h.next.Add(1))
	tree := h.tree()
	if tree == nil {
		return nil, dropped(supervise.ErrDown)
	}
	ref, err := tree.Add(supervise.Spec{ID: id, New: newSubscriber, Restart: supervise.Temporary, Inbox: 2 * MaxQueue})
	if err != nil {
		return nil, problem.Wrap(err, "tray_refused", "no more trays can listen now")
	}
	feed := &Feed{hub: h, id: id, name: name, ref: ref}
	h.mu.Lock()
	h.refs[id] = subscription{ref, tree}
	h.mu.Unlock()
	// Only now: what is asked from here on is published to us, so that nothing
	// falls between. It may be told twice, which readers expect.
	open, err := h.open(ctx)
	if err == nil {
		err = ref.Send(snapshot{open})
	}
	if err != nil {
		feed.Close()
		return nil, err
	}
	return feed, nil
}

func (h *Hub) drop(id string) {
	h.mu.Lock()
	s, known := h.refs[id]
	delete(h.refs, id)
	h.mu.Unlock()
	if known {
		// Its own goroutine: a hung subscriber must not hold up who publishes.
		go s.tree.Remove(context.Background(), id)
	}
}

// Feed is one subscriber's events.
type Feed struct {
	hub  *Hub
	id   string
	name string
	ref  *supervise.Ref
	once sync.Once

	got   uint64 // the number of the last event that Next returned
	begun bool
}

// Name is what the subscriber calls itself.
func (f *Feed) Name() string { return f.name }

// Next waits for events and returns all that came, in order. A Next whose ctx
// ended loses nothing. The error is tray_dropped when the subscriber was
// dropped. One goroutine at a time.
func (f *Feed) Next(ctx context.Context) ([]messages.TrayEvent, error) {
	answer, err := f.ref.Ask(ctx, fetch{got: f.got, first: !f.begun})
	if err != nil {
		if ctx.Err() == nil {
			f.Close()
			return nil, dropped(err)
		}
		return nil, ctx.Err()
	}
	b := answer.(batch)
	f.got, f.begun = b.last, true
	return b.events, nil
}

// Close ends the subscription.
func (f *Feed) Close() { f.once.Do(func() { f.hub.drop(f.id) }) }
