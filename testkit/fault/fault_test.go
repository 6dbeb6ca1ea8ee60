package fault_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"sophia/actors/supervise"
	"sophia/testkit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scribe writes down what it handles.
type scribe struct {
	mu    sync.Mutex
	lines []string
}

func (s *scribe) spec(id string) supervise.Spec {
	return supervise.Spec{ID: id, Stop: supervise.Stop{Grace: time.Second, Kill: time.Second}, New: func() actor.Receiver { return &reader{s, id} }}
}

type reader struct {
	s  *scribe
	id string
}

func (r *reader) Receive(c *actor.Context) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	m := c.Message()
	r.s.lines = append(r.s.lines, strings.TrimPrefix(fmt.Sprintf("%s %T %v", r.id, m, m), "actor."))
	if m == "ask" {
		supervise.ReplyTo(c).Send("answer")
	}
}

func (s *scribe) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.lines
	s.lines = nil
	return out
}

func start(t *testing.T, f *fault.Injector, p supervise.Policy, kids ...supervise.Spec) *supervise.Tree {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	p.Intercept = f.Intercept
	tree, err := supervise.Start(e, "root", p, kids...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func end(t *testing.T, tree *supervise.Tree) {
	t.Helper()
	if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
		t.Errorf("stop: left %v, %v", left, err)
	}
}

// TestFaults_WhatTheActorSees: n counts from Initialized = 1, so message 3 is the first of the sender's.
func TestFaults_WhatTheActorSees(t *testing.T) {
	born := []string{"a actor.Initialized {}", "a actor.Started {}"}
	for _, c := range []struct {
		name  string
		fault supervise.Fault
		want  []string
	}{
		{"Pass", supervise.Fault{}, slices.Concat(born, []string{"a string one", "a string two"})},
		{"Drop", supervise.Fault{Do: supervise.Drop}, slices.Concat(born, []string{"a string two"})},
		{"Dup", supervise.Fault{Do: supervise.Dup}, slices.Concat(born, []string{"a string one", "a string one", "a string two"})},
		{"Delay", supervise.Fault{Do: supervise.Delay, For: time.Hour}, slices.Concat(born, []string{"a string one", "a string two"})},
		{"Panic", supervise.Fault{Do: supervise.Panic}, slices.Concat(born, []string{"a actor.Stopped {}"}, born)},
		{"Goexit", supervise.Fault{Do: supervise.Goexit}, slices.Concat(born, []string{"a actor.Stopped {}"}, born)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s scribe
				f := fault.New(fault.Once("root/a", 3, c.fault))
				tree := start(t, f, supervise.Policy{Max: 9}, s.spec("a"))
				ref := tree.Ref("a")
				begin := time.Now()
				for _, m := range []string{"one", "two"} {
					if err := ref.Send(m); err != nil && c.fault.Do != supervise.Panic && c.fault.Do != supervise.Goexit {
						t.Error(err)
					}
				}
				synctest.Wait()
				if c.fault.Do == supervise.Delay {
					if got := s.took(); !slices.Equal(got, born) {
						t.Errorf("before the delay is over it handled %q", got)
					}
					c.want = c.want[2:]
					time.Sleep(time.Hour) // of the bubble
					synctest.Wait()
				}
				if got := s.took(); !slices.Equal(got, c.want) {
					t.Errorf("handled\n%q, want\n%q", got, c.want)
				}
				if c.fault.Do != supervise.Delay && time.Since(begin) != 0 {
					t.Errorf("it took %v", time.Since(begin))
				}
				end(t, tree)
			})
		})
	}
}

func TestFaults_HangIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scribe
		release := make(chan struct{})
		f := fault.New(fault.At("root/*", 3, supervise.Fault{Do: supervise.Hang, Until: release}))
		tree := start(t, f, supervise.Policy{}, s.spec("a"))
		if err := tree.Ref("a").Send("x"); err != nil {
			t.Fatal(err)
		}
		left, err := tree.Stop(context.Background())
		if err != nil || !slices.Equal(left, []string{"root/a#1"}) {
			t.Errorf("left %q, %v", left, err)
		}
		close(release)
	})
}

func TestFaults_HangWithoutReleaseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scribe
		f := fault.New(fault.On[string]("root/a", supervise.Fault{Do: supervise.Hang}))
		tree := start(t, f, supervise.Policy{}, s.spec("a"))
		if err := tree.Ref("a").Send("x"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		end(t, tree)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it ended after %v, its grace is 1s", took)
		}
	})
}

func TestFaults_LifecycleIsNeitherDroppedNorDoubled(t *testing.T) {
	for _, do := range []supervise.FaultKind{supervise.Drop, supervise.Dup} {
		synctest.Test(t, func(t *testing.T) {
			var s scribe
			f := fault.New(func(fault.Delivery) supervise.Fault { return supervise.Fault{Do: do} })
			tree := start(t, f, supervise.Policy{}, s.spec("a"))
			end(t, tree)
			if got := s.took(); len(got) != 3 {
				t.Errorf("it saw %q", got)
			}
		})
	}
}

func TestKill_CrashesOneLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scribe
		f := fault.New()
		tree := start(t, f, supervise.Policy{Max: 9}, s.spec("a"),
			supervise.Spec{ID: "n", Tree: &supervise.TreeSpec{Policy: supervise.Policy{Max: 9}, Kids: []supervise.Spec{s.spec("x")}}})
		a, x := tree.Ref("a"), tree.Ref("n/x")
		if err := f.Kill(tree, "n/x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if next := tree.Ref("n/x"); next == nil || next == x {
			t.Error("n/x was not restarted")
		}
		if tree.Ref("a") != a {
			t.Error("a was harmed")
		}
		if err := f.Kill(tree, "nobody"); !errors.Is(err, supervise.ErrUnknown) {
			t.Errorf("killing nobody: %v", err)
		}
		end(t, tree)
	})
}

func TestSeen_CountsPerLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scribe
		f := fault.New()
		tree := start(t, f, supervise.Policy{Max: 9}, s.spec("a"))
		if _, err := tree.Ref("a").Ask(context.Background(), "ask"); err != nil {
			t.Fatal(err)
		}
		end(t, tree)
		var got []string
		for _, d := range f.Seen() {
			got = append(got, fmt.Sprintf("%s#%d %d %T", d.Path, d.Gen, d.N, d.Msg))
		}
		want := []string{"root/a#1 1 actor.Initialized", "root/a#1 2 actor.Started", "root/a#1 3 string", "root/a#1 4 actor.Stopped"}
		if !slices.Equal(got, want) {
			t.Errorf("seen %q", got)
		}
	})
}

// handle is a one-shot as the design has it: a state of one actor, Temporary so
// that a second life can't hand it out again.
type handle struct{ used bool }

func (h *handle) Receive(c *actor.Context) {
	if c.Message() == "take" {
		if h.used {
			supervise.ReplyTo(c).Send(errors.New("used"))
			return
		}
		h.used = true
		supervise.ReplyTo(c).Send("the secret")
	}
}

// TestOneShot_ConsumedAtMostOnce over any schedule of crashes, losses and repeats.
func TestOneShot_ConsumedAtMostOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faults := rapid.SliceOfN(rapid.SampledFrom([]supervise.FaultKind{
			supervise.Pass, supervise.Pass, supervise.Drop, supervise.Delay, supervise.Dup, supervise.Panic, supervise.Goexit, supervise.Hang,
		}), 12, 12).Draw(rt, "faults")
		strategy := rapid.SampledFrom([]supervise.Strategy{supervise.OneForOne, supervise.OneForAll, supervise.RestForOne}).Draw(rt, "strategy")
		crash := rapid.IntRange(0, 6).Draw(rt, "neighbour crashes after")
		taken := 0
		synctest.Test(t, func(t *testing.T) {
			f := fault.New(func(d fault.Delivery) supervise.Fault {
				if d.Path == "root/handle" && d.N > 2 && int(d.N) < len(faults) {
					return supervise.Fault{Do: faults[d.N], For: time.Second}
				}
				return supervise.Fault{}
			})
			var s scribe
			tree := start(t, f, supervise.Policy{Strategy: strategy, Max: 99}, s.spec("neighbour"),
				supervise.Spec{ID: "handle", Restart: supervise.Temporary, New: func() actor.Receiver { return new(handle) }})
			it := tree.Lookup("handle")
			var mu sync.Mutex
			var takers sync.WaitGroup
			for i := range 6 {
				if i == crash {
					if err := f.Kill(tree, "neighbour"); err != nil && !errors.Is(err, supervise.ErrUnknown) && !errors.Is(err, supervise.ErrDown) {
						t.Error(err)
					}
				}
				takers.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					if v, err := it.Ask(ctx, "take"); err == nil && v == "the secret" {
						mu.Lock()
						taken++
						mu.Unlock()
					}
				})
				synctest.Wait()
			}
			takers.Wait()
			tree.Stop(context.Background())
		})
		if taken > 1 {
			rt.Fatalf("taken %d times", taken)
		}
		first := faults[3]
		if arrives := first == supervise.Pass || first == supervise.Delay || first == supervise.Dup; arrives && strategy == supervise.OneForOne && taken != 1 {
			rt.Fatalf("the first request arrived, and the one-shot was taken %d times", taken)
		}
	})
}

func TestIntercept_IsRefusedInAReleasedBinary(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "released")
	build := exec.Command("go", "build", "-o", bin, "./testdata/released")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := fmt.Sprintf("%v\n<nil>\n%v\n", supervise.ErrIntercept, supervise.ErrIntercept)
	if string(out) != want {
		t.Errorf("a released binary says\n%swant\n%s", out, want)
	}
}
