package isolates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"

	"sophia/actors/isolates"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/programs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a running pool.
type world struct {
	*isolates.Service
	tree *supervise.Tree
}

// newWorld has a compiler in its own process, unless cfg has another.
func newWorld(tb testing.TB, cfg isolates.Config) *world {
	tb.Helper()
	if cfg.Compile == nil {
		cfg.Compile = inProcess
	}
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		tb.Fatal(err)
	}
	service := isolates.New(cfg)
	tree, err := supervise.Start(engine, "test", supervise.Policy{}, service.Spec())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if left, err := tree.Stop(ctx); err != nil || len(left) > 0 {
			tb.Errorf("stopping the pool: left %v, %v", left, err)
		}
	})
	return &world{service, tree}
}

// real is a pool of real workers.
func real(tb testing.TB, cfg isolates.Config) *world {
	tb.Helper()
	cfg.Spawn = isolates.Command(programs.Build(tb, "sophia-isolate"))
	cfg.Compile = isolates.Apart(programs.Build(tb, "sophia-compile"))
	return newWorld(tb, cfg)
}

// tools is a Caller by name, which records what it was asked.
type tools struct {
	mu   sync.Mutex
	seen []string
	by   map[string]func(ctx context.Context, args json.RawMessage) (any, error)
}

func (t *tools) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	t.mu.Lock()
	t.seen = append(t.seen, tool+" "+string(args))
	t.mu.Unlock()
	f := t.by[tool]
	if f == nil {
		return nil, problem.New("unknown_tool", "There is no %s", tool)
	}
	v, err := f(ctx, args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (t *tools) made() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.seen...)
}

var methods = []messages.Method{
	{Name: "queryKnowledge", Tool: "sophia.query_knowledge"},
	{Name: "searchDocuments", Tool: "sophia.search_documents"},
	{Name: "orient", Tool: "sophia.orient"},
	{Name: "rememberFact", Tool: "sophia.remember_fact"},
	{Name: "hang", Tool: "sophia.hang"},
	{Name: "huge", Tool: "sophia.huge"},
}

func standard() *tools {
	list := func(_ context.Context, args json.RawMessage) (any, error) {
		return map[string]any{"items": []any{map[string]any{"id": 1, "args": args}, map[string]any{"id": 2}}, "total": 2}, nil
	}
	return &tools{by: map[string]func(context.Context, json.RawMessage) (any, error){
		"sophia.query_knowledge":  list,
		"sophia.search_documents": list,
		"sophia.orient":           func(context.Context, json.RawMessage) (any, error) { return map[string]any{"identity": "me"}, nil },
		"sophia.remember_fact": func(context.Context, json.RawMessage) (any, error) {
			return nil, problem.New("approval_denied", "The owner denied remember_fact").WithHint("Ask the owner.")
		},
		"sophia.hang": func(ctx context.Context, _ json.RawMessage) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		"sophia.huge": func(context.Context, json.RawMessage) (any, error) {
			rows := make([]string, 40000)
			for i := range rows {
				rows[i] = fmt.Sprintf("row %d with some text to fill it up so that it weighs something", i)
			}
			return map[string]any{"items": rows, "total": len(rows)}, nil
		},
	}}
}

func (w *world) run(tb testing.TB, code string) messages.RunResult {
	tb.Helper()
	return w.runWith(tb, messages.RunRequest{Code: code, Methods: methods}, standard())
}

func (w *world) runWith(tb testing.TB, req messages.RunRequest, caller isolates.Caller) messages.RunResult {
	tb.Helper()
	r, err := w.Run(tb.Context(), req, caller)
	if err != nil {
		tb.Fatalf("%q: %v", req.Code, err)
	}
	wellFormed(tb, req.Code, r)
	return r
}

// wellFormed is what holds for every result.
func wellFormed(tb testing.TB, code string, r messages.RunResult) {
	tb.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		tb.Fatalf("%.80q: not JSON: %v", code, err)
	}
	kinds := map[string]bool{"syntax": true, "type": true, "runtime": true, "tool": true, "timeout": true, "memory": true, "budget": true, "approval": true, "crash": true}
	switch {
	case r.Logs == nil || r.Calls == nil,
		r.Status != messages.RunOK && r.Status != messages.RunFailed,
		(r.Status == messages.RunFailed) != (r.Error != nil),
		r.Error != nil && (!kinds[r.Error.Kind] || r.Error.Message == "" || r.Value != nil),
		r.SophiaCalls != len(r.Calls), r.Pending > len(r.Calls), r.SophiaCalls > isolates.MaxCalls,
		len(r.Logs) > isolates.MaxLogLines, len(b) > 2<<20, r.ExecutionTimeMS < 0:
		tb.Errorf("%.80q: malformed result %.2000s", code, b)
	}
}

func (w *world) idle(tb testing.TB) { // waits until a worker is idle
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s, err := w.Status(tb.Context())
		if err == nil && s.Idle > 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("no idle worker: %+v, %v", s, err)
		}
		tick := time.NewTimer(2 * time.Millisecond)
		<-tick.C
	}
}
