package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/testkit/programs"
)

// isolated gives a surface the real runner: V8 in a child process.
func isolated(t *testing.T) *surface {
	t.Helper()
	svc := isolates.New(isolates.Config{Spawn: isolates.Command(programs.Build(t, "sophia-isolate")), Compile: isolates.Apart(programs.Build(t, "sophia-compile")), Warm: 1, Max: 2})
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := supervise.Start(engine, "test", supervise.Policy{}, svc.Spec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if unstopped, err := tree.Stop(context.Background()); err != nil || len(unstopped) > 0 {
			t.Errorf("stop: %v %v", unstopped, err)
		}
	})
	return newSurfaceWith(t, svc)
}

// The example of the specification, over a real import, in one call.
func TestExecute_ComposesThreeReads(t *testing.T) {
	s := isolated(t)
	code := `const [briefing, catalog, docs] = await Promise.all([
  sophia.orient({ goal: 'how long is a lease' }),
  sophia.capabilityCatalog({ brief: true }),
  sophia.searchDocuments({ query: 'lease', limit: 3, compact: true }),
]);
return { total_tools: catalog.total_tools, sections: Object.keys(briefing).length, hits: docs.items.length, keys: Object.keys(docs.items[0]).length, method: docs.fusion.method, unread: docs._inbox_unread };`
	args, _ := json.Marshal(map[string]string{"code": code})
	m := s.do(agentA, "execute_code", string(args))
	if m["status"] != "ok" || m["sophia_calls"] != 3.0 {
		t.Fatalf("got %v", m)
	}
	if at(m, "value.total_tools") != float64(len(s.reg.Tools())) || at(m, "value.sections") != 27.0 || at(m, "value.keys") != 5.0 || at(m, "value.method") != "rrf" || at(m, "value.unread") != 0.0 || at(m, "value.hits") == 0.0 {
		t.Errorf("got %v", m["value"])
	}
}

// What is refused outside is refused inside, with the same code, and can be caught.
func TestExecute_RefusalsAreTheSameInside(t *testing.T) {
	s := isolated(t)
	for call, want := range map[string]string{
		`sophia.rememberFact({entity: "acme", predicate: "p", object: "o"})`: "approval_unavailable",
		`sophia.searchDocuments({})`:                                         "missing_argument",
		`sophia.searchDocuments({query: "x", fields: ["nope"]})`:             "unknown_field",
		`sophia.readDocument({id: "doc-none"})`:                              "",
	} {
		args, _ := json.Marshal(map[string]string{"code": "try { await " + call + "; return 'done' } catch (e) { return e.code }"})
		m := s.do(agentA, "execute_code", string(args))
		outside := want
		if want == "" {
			_, err := s.try(agentA, "read_document", `{"id":"doc-none"}`)
			outside = codeOf(err)
		}
		if m["value"] != outside || outside == "" {
			t.Errorf("%s: inside %v, outside %q: %v", call, m["value"], outside, m)
		}
	}
	observer := agentA
	observer.Profile = messages.Observer
	m := s.do(observer, "execute_code", `{"code":"return typeof sophia.recordObservation"}`)
	if m["status"] != "error" || at(m, "error.kind") == nil {
		t.Errorf("an observer's script reached a write: %v", m)
	}
}
