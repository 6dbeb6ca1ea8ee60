package trays_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"sophia/actors/supervise"
	"sophia/actors/trays"
	"sophia/messages"
	"sophia/messages/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a hub and what is open, in virtual time.
type world struct {
	*trays.Hub
	mu   sync.Mutex
	open []messages.ApprovalRequest
}

func newWorld(t *testing.T, intercept supervise.Interceptor) *world {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	policy := trays.Policy()
	policy.Intercept = intercept
	tree, err := supervise.Start(e, "trays", policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("did not stop: %v %v", left, err)
		}
	})
	w := &world{}
	w.Hub = trays.New(func() *supervise.Tree { return tree }, func(context.Context) ([]messages.ApprovalRequest, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return append([]messages.ApprovalRequest(nil), w.open...), nil
	})
	return w
}

func (w *world) ask(id string) {
	r := messages.ApprovalRequest{ID: id}
	w.mu.Lock()
	w.open = append(w.open, r)
	w.mu.Unlock()
	w.Publish(messages.TrayEvent{Kind: messages.TrayAsked, Request: &r})
}

func (w *world) answer(id string) {
	w.mu.Lock()
	for i, r := range w.open {
		if r.ID == id {
			w.open = append(w.open[:i:i], w.open[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	w.Publish(messages.TrayEvent{Kind: messages.TrayAnswered, Verdict: &messages.ApprovalVerdict{ID: id, Outcome: messages.OutcomeApproved, By: "tray 1"}})
}

// view is what a tray shows after the events.
func view(seen map[string]bool, events []messages.TrayEvent) {
	for _, e := range events {
		if e.Kind == messages.TrayAsked {
			seen[e.Request.ID] = true
		} else {
			delete(seen, e.Verdict.ID)
		}
	}
}

func subscribe(t *testing.T, w *world) *trays.Feed {
	t.Helper()
	f, err := w.Subscribe(t.Context(), "tray")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func next(t *testing.T, f *trays.Feed) []messages.TrayEvent {
	t.Helper()
	events, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestTray_ShowsWhatWasMissedAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.ask("ap-1") // before anybody listens
		f := subscribe(t, w)
		defer f.Close()
		if got := next(t, f); len(got) != 1 || got[0].Request.ID != "ap-1" {
			t.Fatalf("at the start: %+v", got)
		}
		w.ask("ap-2")
		if got := next(t, f); len(got) != 1 || got[0].Request.ID != "ap-2" {
			t.Fatalf("live: %+v", got)
		}
		w.answer("ap-1")
		if got := next(t, f); len(got) != 1 || got[0].Verdict.ID != "ap-1" {
			t.Fatalf("answered: %+v", got)
		}
	})
}

func TestTray_FirstNextReturnsAlsoWhenNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		f := subscribe(t, w)
		defer f.Close()
		if got := next(t, f); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := f.Next(ctx); err != context.DeadlineExceeded {
			t.Fatalf("nothing happens: %v", err)
		}
		w.ask("ap-1") // a Next that gave up loses nothing
		if got := next(t, f); len(got) != 1 {
			t.Fatalf("%+v", got)
		}
	})
}

func TestTray_OthersAreToldWhoAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a, b := subscribe(t, w), subscribe(t, w)
		defer a.Close()
		defer b.Close()
		next(t, a)
		next(t, b)
		w.ask("ap-1")
		w.answer("ap-1")
		for _, f := range []*trays.Feed{a, b} {
			var got []messages.TrayEvent
			for len(got) < 2 {
				got = append(got, next(t, f)...)
			}
			if got[1].Verdict == nil || got[1].Verdict.By != "tray 1" {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestTray_SlowOneIsDroppedAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		slow, quick := subscribe(t, w), subscribe(t, w)
		defer quick.Close()
		seen := map[string]bool{}
		view(seen, next(t, quick))
		next(t, slow)
		for i := range 3 * trays.MaxQueue {
			w.ask(fmt.Sprint("ap-", i))
			view(seen, next(t, quick)) // one stuck tray holds up nobody
		}
		if len(seen) != 3*trays.MaxQueue {
			t.Errorf("the quick one saw %d", len(seen))
		}
		synctest.Wait()
		if n := w.Subscribers(); n != 1 {
			t.Errorf("%d listen", n)
		}
		if _, err := slow.Next(t.Context()); problem.CodeOf(err) != "tray_dropped" {
			t.Errorf("the slow one: %v", err)
		}
		again := subscribe(t, w)
		defer again.Close()
		if got := next(t, again); len(got) != 3*trays.MaxQueue {
			t.Errorf("after a reconnect: %d events", len(got))
		}
	})
}

func TestTray_ClosedFeedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for range 100 {
			f := subscribe(t, w)
			f.Close()
			f.Close()
		}
		if n := w.Subscribers(); n != 0 {
			t.Errorf("%d listen", n)
		}
	})
}

// Whatever happens around a subscription, a tray that reconnects when it is
// told to shows in the end exactly what is open.
func TestTray_EndsUpWithWhatIsOpen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.IntRange(0, 5).Draw(rt, "asked before")
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"ask", "answer", "read"}), 0, 60).Draw(rt, "steps")
		crashAt := uint64(rapid.IntRange(0, 30).Draw(rt, "crash at message"))
		kind := rapid.SampledFrom([]supervise.FaultKind{supervise.Panic, supervise.Goexit, supervise.Dup}).Draw(rt, "fault")
		var bad string
		synctest.Test(t, func(t *testing.T) {
			faults := 0
			w := newWorld(t, func(_ string, _, n uint64, _ any) supervise.Fault {
				if n == crashAt && n > 2 && faults == 0 {
					faults++
					return supervise.Fault{Do: kind}
				}
				return supervise.Fault{}
			})
			n := 0
			for range before {
				n++
				w.ask(fmt.Sprint("ap-", n))
			}
			f := subscribe(t, w)
			seen := map[string]bool{}
			read := func() {
				for {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					events, err := f.Next(ctx)
					cancel()
					switch {
					case err == nil:
						view(seen, events)
					case problem.CodeOf(err) == "tray_dropped":
						clear(seen)
						f = subscribe(t, w)
					default:
						return // nothing more for a while
					}
				}
			}
			for _, step := range steps {
				switch step {
				case "ask":
					n++
					w.ask(fmt.Sprint("ap-", n))
				case "answer":
					if len(w.open) > 0 {
						w.answer(w.open[0].ID)
					}
				case "read":
					read()
				}
			}
			read()
			f.Close()
			if len(seen) != len(w.open) {
				bad = fmt.Sprintf("shows %v, open is %+v", seen, w.open)
			}
			for _, r := range w.open {
				if !seen[r.ID] {
					bad = fmt.Sprintf("%s is missing", r.ID)
				}
			}
		})
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}
