package supervise_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// fn is a receiver from a function.
type fn func(c *actor.Context)

func (f fn) Receive(c *actor.Context) { f(c) }

func is(id string, f func(c *actor.Context)) supervise.Spec {
	return supervise.Spec{ID: id, New: func() actor.Receiver { return fn(f) }}
}

// events keeps what was reported.
type events struct {
	mu  sync.Mutex
	all []supervise.Event
}

func (l *events) report(e supervise.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// lines returns the events that contain text.
func (l *events) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, e := range l.all {
		if s := e.String(); strings.Contains(s, text) {
			out = append(out, s)
		}
	}
	return out
}

func (l *events) want(t *testing.T, text string, want ...string) {
	t.Helper()
	if got := l.lines(text); !slices.Equal(got, want) {
		t.Errorf("events about %q:\n%s\nwant:\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func engine(t testing.TB) *actor.Engine {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func start(t testing.TB, p supervise.Policy, kids ...supervise.Spec) *supervise.Tree {
	t.Helper()
	tree, err := supervise.Start(engine(t), "root", p, kids...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func stop(t testing.TB, tree *supervise.Tree) {
	t.Helper()
	if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
		t.Errorf("stop: left %v, %v", left, err)
	}
}

func send(t testing.TB, r *supervise.Ref, msg any) {
	t.Helper()
	if err := r.Send(msg); err != nil {
		t.Fatalf("send to %v: %v", r, err)
	}
}
