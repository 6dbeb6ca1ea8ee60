package isolates_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sophia/actors/isolates"
	"sophia/actors/isolates/compile"
	"sophia/actors/isolates/runclock"
	"sophia/actors/isolates/wire"
	"sophia/messages"
	"sophia/messages/problem"
)

// scripted is a process that a test plays, in virtual time.
type scripted struct {
	net.Conn // the daemon's end
	inside   net.Conn
	once     sync.Once
	gone     chan struct{}
	exit     isolates.Exit
	killed   chan time.Time // holds when it was killed
}

func newScripted() *scripted {
	outside, inside := net.Pipe()
	return &scripted{Conn: outside, inside: inside, gone: make(chan struct{}), killed: make(chan time.Time, 1)}
}

func (p *scripted) Kill() {
	select {
	case p.killed <- time.Now():
	default:
	}
	p.end(isolates.Exit{Signal: "killed"})
}

func (p *scripted) Wait() isolates.Exit { <-p.gone; return p.exit }

func (p *scripted) end(x isolates.Exit) {
	p.once.Do(func() {
		p.exit = x
		p.inside.Close()
		p.Conn.Close()
		close(p.gone)
	})
}

// play plays one process: it is called when the process has said Ready.
type play func(p *scripted)

func (p *scripted) send(f wire.Frame) { _ = wire.Write(p.inside, f) }

// until reads frames up to one of the kind.
func (p *scripted) until(k wire.Kind) (wire.Frame, bool) {
	for {
		f, err := wire.Read(p.inside)
		if err != nil {
			return f, false
		}
		if f.Kind == k {
			return f, true
		}
	}
}

// begins waits for the snippet and accepts it.
func (p *scripted) begins() bool {
	_, ok := p.until(wire.Run)
	if ok {
		p.send(wire.Frame{Kind: wire.Began})
	}
	return ok
}

func (p *scripted) returns(json string) {
	p.send(wire.Frame{Kind: wire.Done, Payload: []byte(json)})
}

// plays returns a Spawn whose n-th process follows the n-th script, and all
// later ones the last.
func plays(scripts ...play) isolates.Spawn {
	var mu sync.Mutex
	n := 0
	return func(context.Context) (isolates.Proc, error) {
		mu.Lock()
		s := scripts[min(n, len(scripts)-1)]
		n++
		mu.Unlock()
		p := newScripted()
		go func() {
			report, _ := json.Marshal(wire.Report{HeapLimit: 8 << 20, Layers: []wire.Layer{{Name: "seccomp", On: true}, {Name: "mdwe", On: false, Detail: "old kernel"}}})
			p.send(wire.Frame{Kind: wire.Ready, Payload: report})
			s(p)
		}()
		return p, nil
	}
}

// inProcess compiles without a process, in whatever time there is.
func inProcess(context.Context) (isolates.Proc, error) {
	p := newScripted()
	go func() {
		if wire.SayReady(p.inside, wire.Report{}) == nil {
			_ = compile.Serve(p.inside, p.inside)
		}
	}()
	return p, nil
}

// wait lets a process live until it is ended from outside.
func wait(p *scripted) { <-p.gone }

func TestRun_StuckWorkerIsKilledAQuarterSecondAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan time.Time, 1)
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Log, Payload: []byte("was here")})
				p.until(wire.Stop) // and does not stop
				wait(p)
				killed <- <-p.killed
			}
		})})
		began := time.Now()
		r := w.runWith(t, messages.RunRequest{Code: "x", TimeoutMS: 3000}, standard())
		if got := (<-killed).Sub(began); got != 3250*time.Millisecond {
			t.Errorf("killed after %v", got)
		}
		if r.Error == nil || r.Error.Kind != messages.KindTimeout || r.Error.Limit != "3000 ms" || len(r.Logs) != 1 || r.ExecutionTimeMS != 3000 {
			t.Errorf("%+v %+v", r, r.Error)
		}
	})
}

func TestRun_TimeoutDefaultsAndIsBounded(t *testing.T) {
	for given, want := range map[int]time.Duration{0: 10 * time.Second, 500: 500 * time.Millisecond, 90_000: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
				if p.begins() {
					if _, ok := p.until(wire.Stop); ok {
						p.send(wire.Frame{Kind: wire.Failed, Payload: []byte(`{"kind":"timeout","message":"stopped"}`)})
					}
				}
			})})
			began := time.Now()
			r := w.runWith(t, messages.RunRequest{Code: "x", TimeoutMS: given}, standard())
			if took := time.Since(began); took != want || r.Error == nil || r.Error.Kind != messages.KindTimeout {
				t.Errorf("timeout_ms %d: %v, %+v", given, took, r.Error)
			}
		})
	}
}

// The owner takes five minutes; the snippet has not used up its ten seconds.
func TestRun_ApprovalStopsTheClockOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.remember_fact", Payload: []byte("{}")})
				if f, ok := p.until(wire.Result); ok && f.OK {
					<-time.After(8 * time.Second) // and goes on working
					p.returns(`"kept"`)
				}
			}
		})})
		caller := &tools{by: map[string]func(context.Context, json.RawMessage) (any, error){
			"sophia.remember_fact": func(ctx context.Context, _ json.RawMessage) (any, error) {
				resume := runclock.Pause(ctx)
				defer resume()
				select {
				case <-time.After(5 * time.Minute):
					return "approved", nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		}}
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, caller)
		if r.Status != messages.RunOK || string(r.Value) != `"kept"` || r.ExecutionTimeMS != 8000 || r.Calls[0].MS != 300_000 {
			t.Errorf("%+v %+v", r, r.Error)
		}
	})
}

func TestRun_HangingCallFailsWhileTheSnippetCanStillSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told problem.Error
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.hang", Payload: []byte("{}")})
				if f, ok := p.until(wire.Result); ok && !f.OK && json.Unmarshal(f.Payload, &told) == nil {
					p.returns(`"reported"`)
				}
			}
		})})
		began := time.Now()
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, standard())
		if string(r.Value) != `"reported"` || told.Code != "call_timeout" || time.Since(began) != 9*time.Second || len(r.Calls) != 1 || r.Calls[0].OK || r.Calls[0].Code != "call_timeout" || r.Pending != 0 {
			t.Errorf("after %v: %+v, told %+v", time.Since(began), r, told)
		}
	})
}

func TestRun_PendingCallsAreCancelledAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				for id, tool := range []string{"sophia.hang", "sophia.orient", "sophia.query_knowledge"} {
					p.send(wire.Frame{Kind: wire.Call, ID: uint32(id), Name: tool, Payload: []byte("{}")})
				}
				p.until(wire.Result)
				p.returns(`1`)
			}
		})})
		caller := standard()
		// A write that cannot be called back: it ends well, after the run.
		caller.by["sophia.query_knowledge"] = func(ctx context.Context, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			<-time.After(100 * time.Millisecond)
			return "written", nil
		}
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, caller)
		if r.Pending != 2 || r.SophiaCalls != 3 || r.Calls[0].Code != "cancelled" || !r.Calls[1].OK || !r.Calls[2].OK {
			t.Errorf("%+v", r)
		}
	})
}

func TestRun_CallThatIgnoresItsCancellationIsOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.hang", Payload: []byte("{}")})
				p.returns(`1`)
			}
		})})
		caller := standard()
		caller.by["sophia.hang"] = func(context.Context, json.RawMessage) (any, error) { <-time.After(time.Hour); return 1, nil }
		began := time.Now()
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, caller)
		if time.Since(began) != 500*time.Millisecond || r.Pending != 1 || r.Calls[0].Code != "outcome_unknown" || r.Calls[0].OK {
			t.Errorf("after %v: %+v", time.Since(began), r)
		}
		<-time.After(time.Hour)
	})
}

func TestRun_PanickingCallIsAnErrorInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []byte
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.orient", Payload: []byte("{}")})
				f, _ := p.until(wire.Result)
				got = f.Payload
				p.returns(`1`)
			}
		})})
		caller := standard()
		caller.by["sophia.orient"] = func(context.Context, json.RawMessage) (any, error) { panic("secret detail") }
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, caller)
		if r.Calls[0].Code != "internal" || len(got) == 0 || bytes.Contains(got, []byte("secret")) {
			t.Errorf("%+v, the snippet was told %s", r, got)
		}
	})
}

// A worker that died before it took the snippet never ran it; another may.
func TestRun_GoesToAnotherWorkerOnlyWhileItHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dies := func(p *scripted) { p.until(wire.Run); p.end(isolates.Exit{Signal: "killed"}) }
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(dies, dies, func(p *scripted) {
			if p.begins() {
				p.returns(`"third"`)
			}
		})})
		if r := w.runWith(t, messages.RunRequest{Code: "x"}, standard()); string(r.Value) != `"third"` {
			t.Errorf("%+v %+v", r, r.Error)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				ran++
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.orient", Payload: []byte("{}")})
				p.until(wire.Result)
				p.end(isolates.Exit{Signal: "killed"})
			}
		})})
		r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, standard())
		if ran != 1 || r.Error == nil || r.Error.Kind != messages.KindCrash || len(r.Calls) != 1 || !r.Calls[0].OK {
			t.Errorf("ran %d times: %+v %+v", ran, r, r.Error)
		}
	})
}

func TestRun_EndOfTheWorkerIsClassifiedByWhatItSaid(t *testing.T) {
	for _, c := range []struct {
		exit isolates.Exit
		kind string
	}{
		{isolates.Exit{Signal: "killed"}, messages.KindCrash},
		{isolates.Exit{Code: 1}, messages.KindCrash},
		{isolates.Exit{Signal: "trace/breakpoint trap", Stderr: "#\n# Fatal process out of memory: Zone"}, messages.KindMemory},
		{isolates.Exit{Code: 2, Stderr: "# Fatal javascript OOM in Committing semi space failed."}, messages.KindMemory},
		{isolates.Exit{Signal: "aborted", Stderr: "terminate called after throwing an instance of 'std::bad_alloc'"}, messages.KindMemory},
		{isolates.Exit{Code: 2, Stderr: "isolate: heap limit\nfatal error"}, messages.KindMemory},
		{isolates.Exit{Code: 2, Stderr: "runtime: goroutine stack exceeds 1000000000-byte limit"}, messages.KindSyntax},
		{isolates.Exit{Signal: "killed", CPU: 33 * time.Second}, messages.KindTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
				if p.begins() {
					p.end(c.exit)
				}
			})})
			if r := w.runWith(t, messages.RunRequest{Code: "x"}, standard()); r.Error == nil || r.Error.Kind != c.kind {
				t.Errorf("%+v: %+v", c.exit, r.Error)
			}
		})
	}
}

// A snippet that took over its worker can send anything.
func TestRun_WorkerIsNotTrusted(t *testing.T) {
	for name, lie := range map[string]func(p *scripted){
		"rubbish":         func(p *scripted) { _, _ = p.inside.Write([]byte("\xff\xff\xff\xff hello")) },
		"ready again":     func(p *scripted) { p.send(wire.Frame{Kind: wire.Ready}) },
		"daemon's frame":  func(p *scripted) { p.send(wire.Frame{Kind: wire.Result, OK: true}) },
		"invalid value":   func(p *scripted) { p.returns(`{"a":`) },
		"huge value":      func(p *scripted) { p.returns(`"` + string(make([]byte, 500_000)) + `"`) },
		"invalid failure": func(p *scripted) { p.send(wire.Frame{Kind: wire.Failed, Payload: []byte("5")}) },
		"same id twice": func(p *scripted) {
			for range 2 {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.hang", Payload: []byte("{}")})
			}
		},
		"flood of calls": func(p *scripted) {
			for id := range uint32(5000) {
				if wire.Write(p.inside, wire.Frame{Kind: wire.Call, ID: id, Name: "sophia.orient", Payload: []byte("{}")}) != nil {
					return
				}
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
				if p.begins() {
					lie(p)
					wait(p)
				}
			})})
			r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, standard())
			if r.Error == nil || r.Error.Kind != messages.KindCrash || r.SophiaCalls > isolates.MaxCalls {
				t.Errorf("%s: %+v %+v", name, r, r.Error)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var told problem.Error
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.revert_mutation", Payload: []byte("{}")})
				f, _ := p.until(wire.Result)
				_ = json.Unmarshal(f.Payload, &told)
				p.returns(`1`)
			}
		})})
		caller := standard()
		if r := w.runWith(t, messages.RunRequest{Code: "x", Methods: methods}, caller); len(r.Calls) != 0 || told.Code != "unknown_tool" || len(caller.made()) != 0 {
			t.Errorf("a tool outside the run's methods: %+v, told %+v", r, told)
		}
	})
}

func TestRun_CallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) {
			if p.begins() {
				p.send(wire.Frame{Kind: wire.Call, ID: 1, Name: "sophia.orient", Payload: []byte("{}")})
				wait(p)
			}
		})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r, err := w.Run(ctx, messages.RunRequest{Code: "x", Methods: methods}, standard())
		if err != nil || r.Error == nil || r.Error.Name != "Cancelled" || len(r.Calls) != 1 || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(began), r, err)
		}
		wellFormed(t, "x", r)
	})
}

func TestRun_DaemonStopsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Warm: 1, Max: 1, Spawn: plays(func(p *scripted) { p.begins(); wait(p) })})
		done := make(chan messages.RunResult, 1)
		go func() {
			r, _ := w.Run(t.Context(), messages.RunRequest{Code: "x"}, standard())
			done <- r
		}()
		synctest.Wait()
		if left, err := w.tree.Stop(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		if r := <-done; r.Error == nil || r.Error.Kind != messages.KindCrash {
			t.Errorf("%+v", r)
		}
	})
}
