package isolates_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sophia/actors/isolates"
	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/programs"
)

// compilers returns a Spawn whose n-th process says Ready and then answers the
// n-th way, and all later ones the last.
func compilers(answers ...func(p *scripted, code string)) isolates.Spawn {
	var plan []play
	for _, answer := range answers {
		plan = append(plan, func(p *scripted) {
			for f, ok := p.until(wire.Run); ok; f, ok = p.until(wire.Run) {
				answer(p, string(f.Payload))
			}
		})
	}
	return plays(plan...)
}

func compiles(p *scripted, code string) {
	b, _ := json.Marshal(script.Program{JS: code, Lines: []string{code}})
	p.send(wire.Frame{Kind: wire.Done, Payload: b})
}

// runs accepts what it gets and returns it.
func runs(p *scripted) {
	if f, ok := p.until(wire.Run); ok {
		p.send(wire.Frame{Kind: wire.Began})
		b, _ := json.Marshal(string(f.Payload))
		p.returns(string(b))
	}
}

func TestCompiler_EndsOnASnippetThatItDoesNotSurvive(t *testing.T) {
	exits := func(x isolates.Exit) func(*scripted, string) {
		return func(p *scripted, code string) {
			if strings.HasPrefix(code, "bad") {
				p.end(x)
				return
			}
			compiles(p, code)
		}
	}
	hangs := func(p *scripted, code string) {
		if strings.HasPrefix(code, "bad") {
			wait(p)
			return
		}
		compiles(p, code)
	}
	for name, c := range map[string]struct {
		answer func(*scripted, string)
		kind   string
		limit  string
	}{
		"no memory":      {exits(isolates.Exit{Code: 2, Stderr: "fatal error: runtime: cannot allocate memory"}), messages.KindMemory, "64 MB"},
		"no stack":       {exits(isolates.Exit{Code: 2, Stderr: "runtime: goroutine stack exceeds 1000000000-byte limit"}), messages.KindSyntax, ""},
		"too long":       {hangs, messages.KindTimeout, "5s"},
		"ends each time": {exits(isolates.Exit{Signal: "segmentation fault"}), messages.KindCrash, ""},
		"another word": {func(p *scripted, code string) {
			if strings.HasPrefix(code, "bad") {
				p.send(wire.Frame{Kind: wire.Log})
				return
			}
			compiles(p, code)
		}, messages.KindCrash, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, isolates.Config{Spawn: plays(runs), Compile: compilers(c.answer), Log: slog.New(slog.DiscardHandler)})
				began := time.Now()
				r := w.run(t, "bad")
				if r.Error == nil || r.Error.Kind != c.kind || !strings.Contains(r.Error.Limit, c.limit) || len(r.Calls) > 0 {
					t.Errorf("%+v %+v", r, r.Error)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %v", took)
				}
				// The next one does not wait for what the first one did.
				if r := w.run(t, "good"); string(r.Value) != `"good"` {
					t.Errorf("%+v %+v", r, r.Error)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("both took %v", took)
				}
			})
		})
	}
}

// A snippet that is not known to be why the compiler ended is compiled by the
// next one, and its writer learns nothing of it.
func TestCompiler_AnotherOneTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, isolates.Config{Spawn: plays(runs), Log: slog.New(slog.DiscardHandler), Compile: compilers(
			func(p *scripted, _ string) { p.end(isolates.Exit{Signal: "killed"}) }, compiles,
		)})
		if r := w.run(t, "again"); string(r.Value) != `"again"` {
			t.Errorf("%+v %+v", r, r.Error)
		}
	})
}

// Where no compiler starts, a run is refused at once and says why, status says
// it too, and a compiler that starts later is found.
func TestCompiler_RefusesWhileItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		broken := true
		spawn := compilers(compiles)
		w := newWorld(t, isolates.Config{Spawn: plays(runs), Log: slog.New(slog.DiscardHandler), Compile: func(ctx context.Context) (isolates.Proc, error) {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return nil, problem.New("test", "no such program")
			}
			return spawn(ctx)
		}})
		synctest.Wait()
		if _, err := w.Run(t.Context(), messages.RunRequest{Code: "x"}, standard()); problem.CodeOf(err) != "isolate_unavailable" {
			t.Errorf("%v", err)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Compiler == nil {
			t.Errorf("%+v, %v", s, err)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		<-time.After(31 * time.Second)
		if r := w.run(t, "x"); string(r.Value) != `"x"` {
			t.Errorf("%+v %+v", r, r.Error)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Compiler != nil {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// The process survives its own end: kill -9 between and under compilations.
func TestCompiler_SurvivesKill(t *testing.T) {
	var r recorded
	w := newWorld(t, isolates.Config{
		Log: slog.New(slog.DiscardHandler), Spawn: isolates.Command(programs.Build(t, "sophia-isolate")),
		Compile: r.wrap(isolates.Apart(programs.Build(t, "sophia-compile"))),
	})
	w.idle(t)
	for range 3 {
		if got := w.run(t, "40 + 2"); string(got.Value) != "42" {
			t.Fatalf("%+v %+v", got, got.Error)
		}
		r.killAll()
		if got := w.run(t, "6 * 7"); string(got.Value) != "42" {
			t.Fatalf("%+v %+v", got, got.Error)
		}
	}
}
