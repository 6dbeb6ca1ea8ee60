package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"pgregory.net/rapid"

	"sophia/actors/supervise"
)

// step is one move of a random schedule.
type step struct {
	Do    string
	Actor string
	N     int
	D     time.Duration
}

var actorIDs = []string{"a", "b", "c", "n/x", "n/y"}

func drawSchedule(t *rapid.T) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			Do: rapid.SampledFrom([]string{"crash", "goexit", "exit", "fail", "deaf", "polite", "stubborn", "work", "badwork",
				"send", "send", "send", "ask", "silence", "timer", "advance", "advance", "add", "remove", "badstop"}).Draw(t, "do"),
			Actor: rapid.SampledFrom(actorIDs).Draw(t, "actor"),
			N:     rapid.IntRange(1, 6).Draw(t, "n"),
			D:     time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond,
		}
	})
	return rapid.SliceOfN(one, 1, 40).Draw(t, "schedule")
}

// rig is a tree under a random schedule and what it must account for.
type rig struct {
	mu       sync.Mutex
	problems []string
	accepted map[int]bool
	handled  map[int]int
	dead     int // dead letters that are numbered messages or only counted
	orders   int // accepted orders; they are accounted for as one sum
	ordered  int
	next     int
	lives    map[string]*lifeLog
	asks     sync.WaitGroup
	release  chan struct{}
	badStop  map[string]bool
}

type lifeLog struct {
	running   map[uint64]bool
	ended     map[uint64]bool
	abandoned map[uint64]bool
}

func (r *rig) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *rig) report(ev supervise.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := func(path string) *lifeLog {
		if r.lives[path] == nil {
			r.lives[path] = &lifeLog{map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}}
		}
		return r.lives[path]
	}
	switch e := ev.(type) {
	case supervise.Started:
		l := log(e.Path)
		for gen := range l.running {
			if !l.abandoned[gen] {
				r.problem("%s#%d started while #%d ran", e.Path, e.Gen, gen)
			}
		}
		l.running[e.Gen] = true
	case supervise.Exited:
		l := log(e.Path)
		if e.Late != l.abandoned[e.Gen] {
			r.problem("%s: late %v, abandoned %v", e, e.Late, l.abandoned[e.Gen])
		}
		delete(l.running, e.Gen)
	case supervise.Abandoned:
		l := log(e.Path)
		l.abandoned[e.Gen] = true
	case supervise.DeadLetter:
		switch e.Msg.(type) {
		case int, nil, order:
			r.dead += e.Count
		}
	}
}

// citizen is an actor that counts its lifecycle.
type citizen struct {
	r    *rig
	id   string
	seen string
}

func (a *citizen) Receive(c *actor.Context) {
	a.r.mu.Lock()
	switch m := c.Message().(type) {
	case actor.Initialized:
		a.seen += "I"
	case actor.Started:
		a.seen += "S"
	case actor.Stopped:
		a.seen += "X"
		if a.seen != "ISX" && a.seen != "IX" {
			a.r.problem("%s saw %s", a.id, a.seen)
		}
		if a.r.badStop[a.id] {
			a.r.mu.Unlock()
			panic("in Stopped")
		}
	case int:
		if a.seen != "IS" {
			a.r.problem("%s handles a message after %s", a.id, a.seen)
		}
		a.r.handled[m]++
	case order:
		if a.seen != "IS" {
			a.r.problem("%s handles an order after %s", a.id, a.seen)
		}
		a.r.ordered++
		a.r.mu.Unlock()
		m(c)
		return
	}
	a.r.mu.Unlock()
}

func (r *rig) spec(id string) supervise.Spec {
	return supervise.Spec{
		ID: id, Inbox: 8, Stop: supervise.Stop{Grace: time.Second, Kill: time.Second},
		New: func() actor.Receiver { return &citizen{r: r, id: id} },
	}
}

func (r *rig) order(ref *supervise.Ref, do order) {
	if ref.Send(do) == nil {
		r.mu.Lock()
		r.orders++
		r.mu.Unlock()
	}
}

func (r *rig) move(tree *supervise.Tree, s step) {
	switch s.Do {
	case "advance":
		time.Sleep(s.D)
		return
	case "add":
		go tree.Add(r.spec(fmt.Sprintf("added-%d", s.N)))
		return
	case "remove":
		go tree.Remove(context.Background(), fmt.Sprintf("added-%d", s.N))
		return
	}
	ref := tree.Ref(s.Actor)
	if ref == nil {
		return // between two lives
	}
	release := r.release
	switch s.Do {
	case "crash":
		r.order(ref, func(*actor.Context) { panic("crash") })
	case "goexit":
		r.order(ref, func(*actor.Context) { runtime.Goexit() })
	case "exit":
		r.order(ref, func(c *actor.Context) { supervise.Exit(c, nil) })
	case "fail":
		r.order(ref, func(c *actor.Context) { supervise.Exit(c, errors.New("failed")) })
	case "deaf":
		r.order(ref, func(*actor.Context) { <-release })
	case "polite":
		r.order(ref, func(c *actor.Context) {
			select {
			case <-supervise.Context(c).Done():
			case <-release:
			}
		})
	case "stubborn":
		r.order(ref, func(c *actor.Context) {
			supervise.Go(c, func(context.Context) any { <-release; return nil })
		})
	case "work":
		r.order(ref, func(c *actor.Context) {
			supervise.Go(c, func(ctx context.Context) any { <-ctx.Done(); return nil })
		})
	case "badwork":
		r.order(ref, func(c *actor.Context) {
			supervise.Go(c, func(context.Context) any { panic("work") })
		})
	case "timer":
		r.order(ref, func(c *actor.Context) { supervise.After(c, s.D, "time") })
	case "badstop":
		r.mu.Lock()
		r.badStop[s.Actor] = true
		r.mu.Unlock()
	case "send":
		for range s.N {
			r.mu.Lock()
			r.next++
			n := r.next
			r.mu.Unlock()
			switch err := ref.Send(n); {
			case err == nil:
				r.mu.Lock()
				r.accepted[n] = true
				r.mu.Unlock()
			case !errors.Is(err, supervise.ErrDown) && !errors.Is(err, supervise.ErrFull):
				r.problem("send: %v", err)
			}
		}
	case "ask", "silence":
		r.asks.Go(func() {
			_, err := ref.Ask(context.Background(), order(func(c *actor.Context) {
				if s.Do == "ask" {
					supervise.ReplyTo(c).Send(1)
				}
			}))
			r.mu.Lock()
			defer r.mu.Unlock()
			if err == nil || errors.As(err, new(*supervise.DownError)) {
				r.orders++
			} else if !errors.Is(err, supervise.ErrDown) && !errors.Is(err, supervise.ErrFull) {
				r.problem("ask: %v", err)
			}
		})
	}
}

// TestTree_AnySchedule drives a nested tree on hollywood itself through random
// crashes, hangs, exits and messages, in virtual time.
func TestTree_AnySchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schedule := drawSchedule(rt)
		strategy := rapid.SampledFrom([]supervise.Strategy{supervise.OneForOne, supervise.OneForAll, supervise.RestForOne}).Draw(rt, "strategy")
		restart := rapid.SampledFrom([]supervise.Restart{supervise.Permanent, supervise.Transient, supervise.Temporary}).Draw(rt, "restart")
		limit := rapid.IntRange(0, 12).Draw(rt, "max")
		base := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(rt, "backoff")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			problems = runSchedule(schedule, strategy, restart, limit, base)
		})
		if len(problems) > 0 {
			rt.Fatalf("%q", problems)
		}
	})
}

func runSchedule(schedule []step, strategy supervise.Strategy, restart supervise.Restart, limit int, base time.Duration) []string {
	r := &rig{
		accepted: map[int]bool{}, handled: map[int]int{}, lives: map[string]*lifeLog{},
		release: make(chan struct{}), badStop: map[string]bool{},
	}
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return []string{err.Error()}
	}
	p := supervise.Policy{Strategy: strategy, Max: limit, Within: time.Minute, Backoff: supervise.Backoff{Base: base}, Report: r.report}
	c := r.spec("c")
	c.Restart = restart
	inner := p
	inner.Max = 1
	tree, err := supervise.Start(e, "root", p, r.spec("a"), r.spec("b"), c,
		supervise.Spec{ID: "n", Tree: &supervise.TreeSpec{Policy: inner, Kids: []supervise.Spec{r.spec("x"), r.spec("y")}}})
	if err != nil {
		return []string{err.Error()}
	}
	for i, s := range schedule {
		r.move(tree, s)
		if i%3 == 0 {
			synctest.Wait()
		}
	}
	// Each of at most a, b, c, x, y and six added ones has two seconds, and a
	// back-off of another one may be under way.
	begin := time.Now()
	unstopped, err := tree.Stop(context.Background())
	if took := time.Since(begin); err != nil || took > 11*2*time.Second {
		r.problem("stop took %v: %v", took, err)
	}
	synctest.Wait()
	r.mu.Lock()
	var running []string
	for path, l := range r.lives {
		for gen := range l.running {
			if !l.abandoned[gen] {
				r.problem("%s#%d runs after the end", path, gen)
			} else {
				running = append(running, fmt.Sprintf("%s#%d", path, gen))
			}
		}
	}
	slices.Sort(running)
	if !slices.Equal(running, unstopped) {
		r.problem("Stop says that %v are left, and %v are", unstopped, running)
	}
	r.mu.Unlock()

	close(r.release)
	r.asks.Wait()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, l := range r.lives {
		if len(l.running) > 0 {
			r.problem("%s: %v have not ended", path, l.running)
		}
	}
	handled := 0
	for n := range r.accepted {
		if r.handled[n] > 1 {
			r.problem("message %d was handled %d times", n, r.handled[n])
		}
		handled += r.handled[n]
	}
	if sum := handled + r.ordered + r.dead; sum != len(r.accepted)+r.orders {
		r.problem("%d messages accepted; %d handled and %d dead letters", len(r.accepted)+r.orders, handled+r.ordered, r.dead)
	}
	return r.problems
}
