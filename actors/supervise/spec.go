package supervise

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// Spec describes one child of a tree.
type Spec struct {
	// ID names the child among its siblings. Not empty, no "/" and no "#".
	ID string
	// New builds the receiver of one life. It runs inside the guarded cell, on
	// the child's own goroutine; a panic in it is a crash of the child.
	New func() actor.Receiver
	// Tree makes the child a tree of its own, instead of New. Every life starts
	// with the Kids of the TreeSpec; what was added to an earlier life is gone.
	Tree    *TreeSpec
	Restart Restart
	// StartWithin bounds Initialized and Started: after it the child is stopped,
	// as by Stop without the grace, and has not started. 0 is no limit. Not used
	// for a tree.
	StartWithin time.Duration
	// Stop is not used for a tree: its own children's times add up.
	Stop Stop
	// Inbox is how many messages may wait before Send returns ErrFull.
	// 0 means DefaultInbox.
	Inbox int
}

// TreeSpec is a tree as a child of another one. A nil Report or Intercept is
// taken from the parent.
type TreeSpec struct {
	Policy Policy
	Kids   []Spec
}

// DefaultInbox is the number of waiting messages that an actor accepts when its
// Spec names none. The memory is taken only when they wait.
const DefaultInbox = 1024

// Restart says which exits of a child are followed by a new life.
type Restart uint8

const (
	// Permanent children always restart.
	Permanent Restart = iota
	// Transient children restart after a failure. Exit(c, nil) is their normal end.
	Transient
	// Temporary children never restart and are forgotten when they end.
	Temporary
)

func (r Restart) String() string {
	return [...]string{"permanent", "transient", "temporary"}[r]
}

// Strategy says who restarts together with a child that failed.
type Strategy uint8

const (
	// OneForOne restarts the child alone.
	OneForOne Strategy = iota
	// OneForAll stops and restarts all children.
	OneForAll
	// RestForOne stops and restarts the child and those that were started after it.
	RestForOne
)

func (s Strategy) String() string {
	return [...]string{"one_for_one", "one_for_all", "rest_for_one"}[s]
}

// Stop is how long a child may take to stop. During Grace it handles what is
// queued and then its Stopped. After Grace its context is cancelled and what is
// still queued is dead-lettered. After Kill more it is abandoned: reported, and
// left behind. Zero means the default, negative means no time at all.
type Stop struct {
	Grace time.Duration // default 5 s
	Kill  time.Duration // default 1 s
}

const (
	defaultGrace = 5 * time.Second
	defaultKill  = time.Second
)

func (s Stop) grace() time.Duration { return orDefault(s.Grace, defaultGrace) }
func (s Stop) kill() time.Duration  { return orDefault(s.Kill, defaultKill) }

func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}

// Policy is how a tree treats failures.
type Policy struct {
	Strategy Strategy
	// More than Max restarts Within the window and the tree gives up: it stops
	// all children and ends with a *GaveUpError, which its parent treats as a
	// crash. Max 0 gives up at the first failure. Within 0 never forgets one.
	Max    int
	Within time.Duration
	// Backoff is waited once per regroup: after the stops, before the starts.
	Backoff Backoff
	// Report receives every event, synchronously, from several goroutines at
	// once. It must be quick, and must neither block nor call runtime.Goexit; a
	// panic in it is contained.
	Report func(Event)
	// Intercept injects faults. Start refuses it outside a test binary.
	Intercept Interceptor
}

// Backoff is the wait before a restart: Base, doubled with each further failure
// within the window, at most Max. The zero value does not wait.
type Backoff struct {
	Base time.Duration
	Max  time.Duration // 0: no limit
	// Jitter between 0 and 1 is the part of the wait that is random, so that
	// actors that failed together don't come back together.
	Jitter float64
	// Rand returns numbers in [0,1). Nil means math/rand/v2.
	Rand func() float64
}

// delay is the wait before the restart that follows the n-th failure, n ≥ 1.
func (b Backoff) delay(n int) time.Duration {
	if b.Base <= 0 || n < 1 {
		return 0
	}
	limit := b.Max
	if limit <= 0 {
		limit = 1<<63 - 1
	}
	d := b.Base
	for ; n > 1 && d < limit; n-- {
		if d > limit/2 {
			d = limit
			break
		}
		d *= 2
	}
	d = min(d, limit)
	if j := min(max(b.Jitter, 0), 1); j > 0 {
		random := b.Rand
		if random == nil {
			random = rand.Float64
		}
		d -= time.Duration(j * random() * float64(d))
	}
	return d
}

func (s Spec) check() error {
	switch {
	case s.ID == "" || strings.ContainsAny(s.ID, "/#"):
		return fmt.Errorf("supervise: the child ID %q is empty or contains / or #", s.ID)
	case (s.New == nil) == (s.Tree == nil):
		return fmt.Errorf("supervise: child %q needs either New or Tree", s.ID)
	case s.Restart > Temporary:
		return fmt.Errorf("supervise: child %q has the unknown restart type %d", s.ID, s.Restart)
	case s.Inbox < 0:
		return fmt.Errorf("supervise: child %q has the negative inbox %d", s.ID, s.Inbox)
	}
	if s.Tree != nil {
		return s.Tree.check()
	}
	return nil
}

func (t *TreeSpec) check() error {
	if t.Policy.Strategy > RestForOne {
		return fmt.Errorf("supervise: unknown strategy %d", t.Policy.Strategy)
	}
	if t.Policy.Intercept != nil && !interceptable() {
		return ErrIntercept
	}
	seen := make(map[string]bool, len(t.Kids))
	for _, k := range t.Kids {
		if err := k.check(); err != nil {
			return err
		}
		if seen[k.ID] {
			return fmt.Errorf("supervise: two children are called %q: %w", k.ID, ErrExists)
		}
		seen[k.ID] = true
	}
	return nil
}
