package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/programs"
	whole "sophia/testkit/surface"
)

// denying is an owner who denies everything, and says why.
type denying struct{}

func (denying) Request(_ context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	return messages.ApprovalVerdict{ID: "ap-000002", Outcome: messages.OutcomeDenied, Reason: "not today", Digest: r.Digest}, nil
}

// both makes a call directly and from a script, and returns what each was told:
// the body, or the refusal.
func both(t *testing.T, s *whole.Surface, a messages.Authority, tool *registry.Tool, args string) (outside, inside any) {
	t.Helper()
	r := s.Call(t.Context(), dispatch.Request{Authority: a, Tool: tool.Name, Args: json.RawMessage(args)})
	if err := json.Unmarshal(r.Body, &outside); err != nil {
		t.Fatal(err)
	}
	if r.Err != nil {
		outside = refusal(r.Err)
	}
	code := fmt.Sprintf("try { return { body: await sophia.%s(%s) } } catch (e) { return { code: e.code, message: e.message, tool: e.tool, valid: e.valid } }", tool.Method, args)
	var ran struct {
		Status string
		Value  struct {
			Body          any
			Code, Message string
			Tool          string
			Valid         []string
		}
		Error *messages.RunError
	}
	if err := s.Do(t.Context(), a, "execute_code", map[string]any{"code": code, "check": "off"}, &ran); err != nil {
		t.Fatal(err)
	}
	if ran.Status != messages.RunOK {
		t.Fatalf("%s: %+v", code, ran.Error)
	}
	inside = ran.Value.Body
	if ran.Value.Code != "" {
		if ran.Value.Tool != tool.Canonical {
			t.Errorf("%s: the refusal is of %q", code, ran.Value.Tool)
		}
		inside = ran.Value.Code + ": " + ran.Value.Message + " " + strings.Join(ran.Value.Valid, ",")
	}
	return outside, inside
}

// refusal is a problem as a script's error shows it.
func refusal(p *problem.Error) string {
	message := p.Message
	if p.Hint != "" {
		message += ": " + p.Hint
	}
	return p.Code + ": " + message + " " + strings.Join(p.Valid, ",")
}

// Every read gives the same inside a script as outside, for all entities and for
// one, and refuses the same.
func TestSamePath_EveryReadIsTheSameInside(t *testing.T) {
	s := wholeSurface(t, whole.Options{Isolate: programs.Build(t, "sophia-isolate"), Compile: programs.Build(t, "sophia-compile"), Gate: &willing{}})
	do := func(tool string, args map[string]any, v any) {
		t.Helper()
		if err := s.Do(t.Context(), agentA, tool, args, v); err != nil {
			t.Fatal(err)
		}
	}
	do("write_wiki_page", map[string]any{"slug": "plan", "title": "Plan", "body": "[[other]]", "entity": "acme"}, nil)
	do("remember_fact", map[string]any{"entity": "acme", "predicate": "lease", "object": "3600 s"}, nil)
	do("remember_fact", map[string]any{"entity": "beta", "predicate": "lease", "object": "7200 s"}, nil)
	do("post_message", map[string]any{"body": "hello"}, nil)
	var docs struct{ Items []struct{ ID string } }
	do("query_documents", map[string]any{"path": "README"}, &docs)
	var symbols struct{ Items []struct{ ID string } }
	do("query_codebase", map[string]any{"kind": "symbols", "name": "openLease"}, &symbols)
	var entries struct{ Items []struct{ ID string } }
	do("list_mutations", map[string]any{"limit": 2}, &entries)

	cases := map[string][]string{
		"orient":             {`{}`, `{"goal":"how long is a lease"}`, `{"sections":["identity","weather"]}`},
		"whoami":             {`{}`},
		"capability_catalog": {`{"brief":true}`, `{}`, `{"group":"nope"}`},
		"read_inbox":         {`{}`, `{"summary_only":true}`, `{"include_read":true,"compact":true}`},
		"search_documents":   {`{"query":"lease"}`, `{"query":"lease","compact":true,"explain":true}`, `{"query":"lease","fields":["nope"]}`, `{}`},
		"query_documents":    {`{}`, `{"tier":"searchable","limit":1}`, `{"limit":"5"}`, `{"cursor":"nonsense"}`},
		"read_document":      {`{"document":"` + docs.Items[0].ID + `","length":20}`, `{"document":"doc-none"}`},
		"query_knowledge":    {`{}`, `{"entity":"beta"}`, `{"query":"lease","compact":true}`},
		"get_wiki_page":      {`{"slug":"plan"}`, `{"slug":"none"}`},
		"query_codebase":     {`{"kind":"overview"}`, `{"kind":"symbols"}`, `{"kind":"callers","symbol":"` + symbols.Items[0].ID + `"}`, `{"kind":"functions"}`},
		"list_mutations":     {`{}`, `{"table":"facts","compact":true}`, `{"since":"yesterday"}`},
		"get_mutation":       {`{"id":"` + entries.Items[0].ID + `"}`, `{"id":"mut-none"}`},
		"search":             {`{"query":"lease"}`, `{"query":"lease","types":["fact"],"explain":true}`},
		"check_evidence":     {`{"document":"` + docs.Items[0].ID + `","quote":"A lease ends"}`, `{"document":"` + docs.Items[0].ID + `","quote":"never said"}`},
	}
	for _, a := range []messages.Authority{agentA, agentB} {
		reads := 0
		for _, tool := range s.Callable(a, true).Tools() {
			if !tool.ReadOnly() {
				continue
			}
			reads++
			if len(cases[tool.Name]) == 0 {
				t.Errorf("%s is not compared", tool.Canonical)
			}
			for _, args := range cases[tool.Name] {
				outside, inside := both(t, s, a, tool, args)
				if !reflect.DeepEqual(steady(outside), steady(inside)) {
					t.Errorf("%s: %s(%s)\noutside %v\ninside  %v", a.Name, tool.Name, args, outside, inside)
				}
			}
		}
		if reads < 14 {
			t.Errorf("only %d reads", reads)
		}
	}
}

// steady leaves out what differs: a cursor is sealed anew for each call, and what
// is likely next depends on what can be called from where one is.
func steady(v any) any {
	if m, ok := v.(map[string]any); ok {
		if _, there := m["cursor"]; there {
			m["cursor"] = "…"
		}
		delete(m, "next_likely_calls")
	}
	return v
}

// A write that is denied, unavailable or out of scope is refused inside as it is
// outside, word for word, and leaves as little.
func TestSamePath_RefusedWritesAreTheSameInside(t *testing.T) {
	program := programs.Build(t, "sophia-isolate")
	for name, gate := range map[string]dispatch.Gate{"denied": denying{}, "no gate": nil, "approved": &willing{}} {
		s := wholeSurface(t, whole.Options{Isolate: program, Compile: programs.Build(t, "sophia-compile"), Gate: gate})
		before, _ := s.DB.Head()
		for _, c := range []struct {
			who  messages.Authority
			tool string
			args string
			want string // the code; "" when it depends on the gate
		}{
			{agentB, "record_observation", `{"entity":"acme","text":"x"}`, ""},
			{agentB, "write_wiki_page", `{"slug":"a","body":"b","entity":"acme"}`, ""},
			{agentA, "remember_fact", `{"entity":"acme","predicate":"p","object":"o"}`, ""},
			{agentB, "record_observation", `{"entity":"beta","text":"not mine"}`, "outside_scope"},
			{agentA, "record_observation", `{"txt":"x"}`, "unknown_argument"},
			{agentA, "revert_mutation", `{"id":"mut-none"}`, "not_found"},
		} {
			tool, ok := s.Registry().Lookup(c.tool)
			if !ok {
				t.Fatal(c.tool)
			}
			want := c.want
			switch {
			case name == "no gate" && want != "unknown_argument": // nobody to ask: what would change is not looked at
				want = "approval_unavailable"
			case name == "denied" && want == "":
				want = "approval_denied"
			case want == "":
				continue // it is done
			}
			outside, inside := both(t, s, c.who, tool, c.args)
			if told, _ := outside.(string); !strings.HasPrefix(told, want) || outside != inside {
				t.Errorf("%s, %s(%s)\noutside %v\ninside  %v\nwant    %s", name, c.tool, c.args, outside, inside, want)
			}
		}
		if after, _ := s.DB.Head(); after != before {
			t.Errorf("%s: %d entries were written", name, after-before)
		}
	}
}

// An approved write inside is journaled as one outside: by the same connection,
// with its tool and a call of its own.
func TestSamePath_WritesAreJournaledAlike(t *testing.T) {
	owner := &willing{}
	s := wholeSurface(t, whole.Options{Isolate: programs.Build(t, "sophia-isolate"), Compile: programs.Build(t, "sophia-compile"), Gate: owner})
	tool, _ := s.Registry().Lookup("record_observation")
	both(t, s, agentB, tool, `{"entity":"acme","text":"x","reason":"told"}`)
	if len(owner.asked) != 2 || owner.asked[0].Digest != owner.asked[1].Digest || owner.asked[0].Connection != owner.asked[1].Connection ||
		string(owner.asked[0].Arguments) != string(owner.asked[1].Arguments) {
		t.Errorf("the owner was asked %+v", owner.asked)
	}
	var page struct {
		Items []struct{ Tool, Connection, Actor, Reason, Call, Table string }
	}
	if err := s.Do(t.Context(), agentA, "list_mutations", map[string]any{"limit": 2}, &page); err != nil {
		t.Fatal(err)
	}
	a, b := page.Items[0], page.Items[1]
	if a.Call == b.Call || a.Call == "" {
		t.Errorf("the calls are %q and %q", a.Call, b.Call)
	}
	if a.Call, b.Call = "", ""; a != b || a.Tool != "sophia.record_observation" || a.Connection != agentB.Connection {
		t.Errorf("%+v\n%+v", a, b)
	}
}
