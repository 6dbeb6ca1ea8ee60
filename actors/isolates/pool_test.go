package isolates_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sophia/actors/isolates"
	"sophia/actors/isolates/runclock"
	"sophia/actors/isolates/wire"
	"sophia/messages"
	"sophia/messages/problem"
)

func TestPool_StartsThatFailAreBackedOffAndVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Time
		w := newWorld(t, isolates.Config{Warm: 2, Max: 4, Log: slog.New(slog.DiscardHandler), Spawn: func(context.Context) (isolates.Proc, error) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			return nil, errors.New("no such file")
		}})
		<-time.After(10 * time.Minute)
		mu.Lock()
		starts := len(at)
		gap := at[starts-1].Sub(at[starts-2])
		mu.Unlock()
		if starts > 40 || starts < 10 || gap != 30*time.Second {
			t.Errorf("%d starts in ten minutes, the last two %v apart", starts, gap)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Failures < 10 || problem.CodeOf(s.Last) != "isolate_unavailable" {
			t.Errorf("%+v, %v", s, err)
		}
		began := time.Now()
		if _, err := w.Run(t.Context(), messages.RunRequest{Code: "x"}, standard()); problem.CodeOf(err) != "isolate_unavailable" || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A worker that becomes ready and ends, again and again, is started later and
// later too, and told of.
func TestPool_WorkersThatEndUnusedAreBackedOffAndVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		starts := 0
		w := newWorld(t, isolates.Config{Warm: 2, Max: 4, Log: slog.New(slog.DiscardHandler), Spawn: plays(func(p *scripted) {
			mu.Lock()
			starts++
			mu.Unlock()
			<-time.After(10 * time.Millisecond)
			p.end(isolates.Exit{Signal: "killed"})
		})})
		<-time.After(10 * time.Minute)
		mu.Lock()
		n := starts
		mu.Unlock()
		if n > 60 || n < 10 {
			t.Errorf("%d starts in ten minutes", n)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Failures < 10 || s.Last == nil {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestPool_StrictRefusesAWorkerWithoutALayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Strict: true, Log: slog.New(slog.DiscardHandler), Spawn: plays(wait)})
		if _, err := w.Run(t.Context(), messages.RunRequest{Code: "x"}, standard()); problem.CodeOf(err) != "isolate_layer_missing" {
			t.Errorf("%v", err)
		}
	})
}

func TestPool_BurstIsServedFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if f, ok := p.until(wire.Run); ok {
				p.send(wire.Frame{Kind: wire.Began})
				mu.Lock()
				order = append(order, regexp.MustCompile(`return (.);`).FindStringSubmatch(string(f.Payload))[1])
				mu.Unlock()
				<-time.After(time.Second)
				p.returns(`1`)
			}
		})})
		var wg sync.WaitGroup
		for _, connection := range []string{"a", "a", "a", "a", "a", "b", "c"} {
			wg.Go(func() {
				if _, err := w.Run(t.Context(), messages.RunRequest{Code: connection, Connection: connection}, standard()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		got := ""
		for _, c := range order {
			got += c
		}
		if got != "abcaaaa" {
			t.Errorf("served in the order %s", got)
		}
	})
}

func TestPool_OneConnectionCannotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				<-time.After(time.Second)
				p.returns(`1`)
			}
		})})
		var mu sync.Mutex
		codes := map[string]int{}
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				_, err := w.Run(t.Context(), messages.RunRequest{Code: "x", Connection: "a"}, standard())
				mu.Lock()
				codes[problem.CodeOf(err)]++
				mu.Unlock()
			})
			synctest.Wait()
		}
		wg.Wait()
		if codes[""] != 33 || codes["isolate_queue_full"] != 7 {
			t.Errorf("%v", codes)
		}
	})
}

// Who went away while waiting is passed over, and costs no worker.
func TestPool_WaitingCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				<-time.After(5 * time.Second)
				p.returns(`1`)
			}
		})})
		go w.Run(t.Context(), messages.RunRequest{Code: "first"}, standard())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Run(ctx, messages.RunRequest{Code: "second"}, standard()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if r := w.runWith(t, messages.RunRequest{Code: "third"}, standard()); string(r.Value) != "1" {
			t.Errorf("%+v", r)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Leased != 2 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A connection whose runs all wait for the owner leaves room for the others.
func TestPool_OneConnectionNeverHoldsAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 4, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.hang", Payload: []byte("{}")})
				if _, ok := p.until(wire.Result); ok {
					p.returns("1")
				}
			}
		})})
		owner := make(chan struct{})
		asks := &tools{by: map[string]func(context.Context, json.RawMessage) (any, error){
			"sophia.hang": func(ctx context.Context, _ json.RawMessage) (any, error) {
				defer runclock.Pause(ctx)()
				<-owner
				return 1, nil
			},
		}}
		answers := &tools{by: map[string]func(context.Context, json.RawMessage) (any, error){
			"sophia.hang": func(context.Context, json.RawMessage) (any, error) { return 1, nil },
		}}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if r := w.runWith(t, messages.RunRequest{Code: "x", Connection: "greedy", Methods: methods}, asks); r.Error != nil {
					t.Errorf("%+v", r.Error)
				}
			})
		}
		<-time.After(time.Minute)
		if r := w.runWith(t, messages.RunRequest{Code: "x", Connection: "other", Methods: methods}, answers); r.Error != nil {
			t.Errorf("%+v", r.Error)
		}
		synctest.Wait()
		s, err := w.Status(t.Context())
		if err != nil || s.Running != 2 || s.Waiting != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		close(owner)
		wg.Wait()
	})
}

// A spare that starts beside the worker that somebody waits for holds it up.
func TestPool_SparesStartAfterWhatSomebodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const startup = 10 * time.Millisecond
		var starts atomic.Int32
		play := plays(func(p *scripted) {
			if p.begins() {
				p.returns("1")
			}
			wait(p)
		})
		w := newWorld(t, isolates.Config{Warm: 1, Max: 8, Spawn: func(ctx context.Context) (isolates.Proc, error) {
			starts.Add(1)
			<-time.After(startup)
			return play(ctx)
		}})
		done := make(chan struct{})
		go func() { w.run(t, "1"); close(done) }()
		<-time.After(startup / 2)
		if n := starts.Load(); n != 1 {
			t.Errorf("%d workers are starting while one run waits", n)
		}
		<-done
		<-time.After(time.Second)
		if s, err := w.Status(t.Context()); err != nil || s.Idle != 1 {
			t.Errorf("%+v, %v: the spare never came", s, err)
		}
	})
}

// takesTime is a process that is long in ending.
type takesTime struct{ *scripted }

func (p takesTime) Kill() {
	p.scripted.Kill()
	<-time.After(time.Second)
}

func TestWorker_ResultDoesNotWaitForTheEndOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play := plays(func(p *scripted) {
			if p.begins() {
				p.returns("1")
			}
			wait(p)
		})
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: func(ctx context.Context) (isolates.Proc, error) {
			p, err := play(ctx)
			return takesTime{p.(*scripted)}, err
		}})
		begun := time.Now()
		if got := w.run(t, "1"); string(got.Value) != "1" || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("%s after %v", got.Value, time.Since(begun))
		}
	})
}

// What may still be busy is ended before the calls that it left behind.
func TestWorker_EndsBeforeItsCallsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan *scripted, 1)
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				ended <- p
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.deaf", Payload: []byte("{}")})
				p.returns("1")
			}
			wait(p)
		})})
		caller := standard()
		caller.by["sophia.deaf"] = func(context.Context, json.RawMessage) (any, error) { <-time.After(time.Minute); return nil, nil }
		begun := time.Now()
		got := w.runWith(t, messages.RunRequest{Code: "1", Methods: append(slices.Clone(methods), messages.Method{Name: "deaf", Tool: "sophia.deaf"})}, caller)
		if at := <-(<-ended).killed; got.Pending != 1 || at.Sub(begun) > 100*time.Millisecond {
			t.Errorf("killed after %v: %+v", at.Sub(begun), got)
		}
		<-time.After(2 * time.Minute) // the call's goroutine ends
	})
}
