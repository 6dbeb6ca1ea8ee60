package connections_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"pgregory.net/rapid"

	"sophia/actors/connections"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

type world struct {
	*connections.Connections
	tree *supervise.Tree
}

func start(t testing.TB, c connections.Config, intercept supervise.Interceptor) *world {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	p := connections.Policy()
	p.Intercept = intercept
	tree, err := supervise.Start(e, "connections", p)
	if err != nil {
		t.Fatal(err)
	}
	return &world{connections.New(c, func() *supervise.Tree { return tree }), tree}
}

func (w *world) stop(t testing.TB) {
	t.Helper()
	if unstopped, err := w.tree.Stop(context.Background()); err != nil || len(unstopped) > 0 {
		t.Errorf("stop: %v %v", unstopped, err)
	}
}

func who(id string) messages.Authority {
	return messages.Authority{Connection: id, Name: "Agent " + id}
}

func TestEnter_BoundsEachConnectionByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, connections.Config{InFlight: 2}, nil)
		defer w.stop(t)
		first, err := w.Enter(t.Context(), who("conn-1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Enter(t.Context(), who("conn-1")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Enter(t.Context(), who("conn-1")); problem.CodeOf(err) != connections.CodeTooMany {
			t.Errorf("a third call: %v", err)
		}
		if _, err := w.Enter(t.Context(), who("conn-2")); err != nil {
			t.Errorf("another connection: %v", err)
		}
		first()
		first() // more than once is once
		if _, err := w.Enter(t.Context(), who("conn-1")); err != nil {
			t.Errorf("after one has left: %v", err)
		}
		if _, err := w.Enter(t.Context(), who("conn-1")); problem.CodeOf(err) != connections.CodeTooMany {
			t.Errorf("leaving twice made room for two: %v", err)
		}
	})
}

func TestIdle_StopsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, connections.Config{InFlight: 1, Idle: time.Minute}, nil)
		defer w.stop(t)
		leave, err := w.Enter(t.Context(), who("conn-1"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // virtual: busy is not idle
		if w.tree.Ref("conn-1") == nil {
			t.Fatal("it stopped with a call under way")
		}
		leave()
		time.Sleep(50 * time.Second)
		if seen := w.Active(t.Context()); len(seen) != 1 || seen[0].Connection != "conn-1" || seen[0].Name != "Agent conn-1" || seen[0].InFlight != 0 || time.Since(seen[0].Last) != 50*time.Second {
			t.Errorf("active: %+v", seen)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if w.tree.Ref("conn-1") != nil || len(w.Active(t.Context())) != 0 {
			t.Error("it did not stop")
		}
		if _, err := w.Enter(t.Context(), who("conn-1")); err != nil {
			t.Errorf("it did not come back: %v", err)
		}
	})
}

func TestDrop_StopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, connections.Config{}, nil)
		defer w.stop(t)
		leave, err := w.Enter(t.Context(), who("conn-1"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Drop(t.Context(), "conn-1"); err != nil {
				t.Error(err)
			}
		}
		leave() // of a life that is over
		if w.tree.Ref("conn-1") != nil {
			t.Error("it is still there")
		}
	})
}

func TestEnter_ManyAtOnceMakeOneActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, connections.Config{InFlight: 100}, nil)
		defer w.stop(t)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, err := w.Enter(t.Context(), who(fmt.Sprintf("conn-%d", i%4))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(w.Active(t.Context())); n != 4 {
			t.Errorf("%d actors for 4 connections", n)
		}
	})
}

// A crash at any message loses no caller: each Enter ends, and afterwards the
// connection can be used.
func TestFault_ACrashAtAnyMessage(t *testing.T) {
	for n := range 8 {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			seen := 0
			w := start(t, connections.Config{InFlight: 4}, func(string, uint64, uint64, any) supervise.Fault {
				mu.Lock()
				defer mu.Unlock()
				seen++
				if seen == n+1 {
					return supervise.Fault{Do: supervise.Panic}
				}
				return supervise.Fault{}
			})
			defer w.stop(t)
			for range 3 {
				leave, err := w.Enter(t.Context(), who("conn-1"))
				if err == nil {
					leave()
				} else if problem.CodeOf(err) != connections.CodeDown {
					t.Errorf("crash at message %d: %v", n, err)
				}
			}
			time.Sleep(2 * time.Second)
			if leave, err := w.Enter(t.Context(), who("conn-1")); err != nil {
				t.Errorf("crash at message %d: afterwards %v", n, err)
			} else {
				leave()
			}
		})
	}
}

// Whatever the order of entering, leaving, giving up and idling, never more than
// the limit are admitted, and what has left makes room.
func TestEnter_NeverMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(rt, "limit")
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"enter", "leave", "give up", "idle"}), 1, 30).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			w := start(t, connections.Config{InFlight: limit, Idle: time.Minute}, nil)
			defer w.stop(t)
			var under []func()
			for i, step := range steps {
				switch step {
				case "enter":
					leave, err := w.Enter(t.Context(), who("conn-1"))
					if full := len(under) == limit; full != (problem.CodeOf(err) == connections.CodeTooMany) || !full && err != nil {
						rt.Errorf("step %d of %v: %d under way of %d, got %v", i, steps, len(under), limit, err)
						return
					}
					if err == nil {
						under = append(under, leave)
					}
				case "leave":
					if len(under) > 0 {
						under[0]()
						under = under[1:]
					}
				case "give up":
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if leave, err := w.Enter(ctx, who("conn-1")); err == nil {
						leave()
					}
				case "idle":
					time.Sleep(2 * time.Minute)
				}
				synctest.Wait()
			}
		})
	})
}
