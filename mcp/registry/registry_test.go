package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
)

type findIn struct {
	Query string `json:"query" jsonschema:"what to look for" min:"1"`
	Kind  string `json:"kind,omitempty" enum:"note,decision" default:"note"`
	Limit int    `json:"limit,omitempty" default:"20" min:"1" max:"100"`
}

type row struct {
	ID    string   `json:"id"`
	Title string   `json:"title"`
	Kind  string   `json:"kind"`
	Tags  []string `json:"tags"`
	Note  *string  `json:"note"`
	Extra string   `json:"extra,omitempty"`
}

func find(s func(*registry.Spec), h registry.Handler[findIn, registry.Page[row]]) registry.Tool {
	spec := registry.Spec{Name: "find_notes", Group: registry.ReadWiki, Summary: "Find notes", Description: "Finds notes by words.",
		Effects: registry.Effects{Reads: []string{"notes"}}, Compact: []string{"id", "title"}, Core: true}
	if s != nil {
		s(&spec)
	}
	if h == nil {
		h = func(_ context.Context, _ *registry.Call, in findIn) (registry.Page[row], error) {
			return registry.Page[row]{Total: 1, Items: []row{{ID: "n1", Title: in.Query, Kind: in.Kind}}}, nil
		}
	}
	return registry.Define(spec, h)
}

type nothing struct{}
type done struct {
	OK bool `json:"ok"`
}

func write(name string, elevated bool) registry.Tool {
	return registry.Define(registry.Spec{Name: name, Group: registry.MutateWiki, Summary: "Write", Description: "Writes.",
		Effects: registry.Effects{Writes: []string{"notes"}, Elevated: elevated}},
		func(context.Context, *registry.Call, nothing) (done, error) { return done{true}, nil })
}

func traffic(name string) registry.Tool {
	return registry.Define(registry.Spec{Name: name, Group: registry.Coordination, Summary: "Post", Description: "Posts.", Scope: registry.Unscoped,
		Effects: registry.Effects{Traffic: []string{"posts"}}, Core: true, Code: true},
		func(context.Context, *registry.Call, nothing) (done, error) { return done{true}, nil })
}

func mustNew(t *testing.T, tools ...registry.Tool) *registry.Registry {
	t.Helper()
	r, err := registry.New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistry_RefusesToolsThatCollideInTheSDK(t *testing.T) {
	_, err := registry.New(write("query_1a", false), write("query1a", false))
	if err == nil || !strings.Contains(err.Error(), "query1a") || !strings.Contains(err.Error(), "query_1a") {
		t.Errorf("want both names in the error, got %v", err)
	}
	if _, err := registry.New(write("a", false), write("a", false)); err == nil {
		t.Error("two tools with one name were accepted")
	}
}

func TestRegistry_RefusesDeclarationsThatDontFitTogether(t *testing.T) {
	for what, tool := range map[string]registry.Tool{
		"a name with a dash":             find(func(s *registry.Spec) { s.Name = "find-notes" }, nil),
		"a method that makes a thenable": find(func(s *registry.Spec) { s.Name = "then" }, nil),
		"no such group":                  find(func(s *registry.Spec) { s.Group = "misc" }, nil),
		"a read tool that writes":        find(func(s *registry.Spec) { s.Effects.Writes = []string{"notes"} }, nil),
		"a list without compact keys":    find(func(s *registry.Spec) { s.Compact = nil }, nil),
		"a compact key that isn't there": find(func(s *registry.Spec) { s.Compact = []string{"name"} }, nil),
		"an elevated read":               find(func(s *registry.Spec) { s.Effects.Elevated = true }, nil),
		"no description":                 find(func(s *registry.Spec) { s.Description = "" }, nil),
	} {
		if _, err := registry.New(tool); err == nil {
			t.Errorf("accepted: %s", what)
		}
	}
}

func run(t *testing.T, tool registry.Tool, args string) (map[string]any, error) {
	t.Helper()
	r := mustNew(t, tool)
	body, err := r.Tools()[0].Run(context.Background(), &registry.Call{}, json.RawMessage(args))
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m, nil
}

func firstKeys(m map[string]any) []string {
	var keys []string
	for k := range m["items"].([]any)[0].(map[string]any) {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestList_CompactAndFieldsCutEachItem(t *testing.T) {
	for args, want := range map[string][]string{
		`{"query":"x"}`:                                {"id", "kind", "note", "tags", "title"},
		`{"query":"x","compact":true}`:                 {"id", "title"},
		`{"query":"x","fields":["kind","kind"]}`:       {"kind"},
		`{"query":"x","fields":["extra","id"]}`:        {"id"},
		`{"query":"x","compact":true,"fields":["id"]}`: {"id"},
	} {
		m, err := run(t, find(nil, nil), args)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if got := firstKeys(m); !slices.Equal(got, want) {
			t.Errorf("%s: keys %v, want %v", args, got, want)
		}
		if m["total"] != 1.0 {
			t.Errorf("%s: the total is %v", args, m["total"])
		}
	}
}

func TestList_UnknownFieldNamesTheValidOnes(t *testing.T) {
	_, err := run(t, find(nil, nil), `{"query":"x","fields":["titel"]}`)
	e, ok := errors.AsType[*problem.Error](err)
	if !ok || e.Code != registry.CodeUnknownField {
		t.Fatalf("got %v", err)
	}
	if !slices.Contains(e.Valid, "title") || !strings.Contains(e.Hint, "title") {
		t.Errorf("neither the valid keys nor the nearest one are there: %+v", e)
	}
}

func TestArguments_DefaultsAndErrors(t *testing.T) {
	var got findIn
	tool := find(nil, func(_ context.Context, _ *registry.Call, in findIn) (registry.Page[row], error) {
		got = in
		return registry.Page[row]{}, nil
	})
	m, err := run(t, tool, `{"query":"x","limit":5}`)
	if err != nil || got.Kind != "note" || got.Limit != 5 {
		t.Fatalf("%v: %+v", err, got)
	}
	if items, ok := m["items"].([]any); !ok || len(items) != 0 {
		t.Errorf("a nil list came out as %v", m["items"])
	}
	for args, want := range map[string]string{
		`{}`:                           "missing_argument",
		`{"query":"x","limt":5}`:       "unknown_argument",
		`{"query":"x","Limit":5}`:      "unknown_argument", // encoding/json alone would take it
		`{"query":"x","limit":"5"}`:    "invalid_argument",
		`{"query":"x","limit":101}`:    "invalid_argument",
		`{"query":"x","limit":1.5}`:    "invalid_argument",
		`{"query":"","limit":1}`:       "invalid_argument",
		`{"query":null}`:               "invalid_argument",
		`{"query":"x","kind":"notes"}`: "invalid_argument",
		`[]`:                           "arguments_not_an_object",
		`{"query":"x"} {}`:             "arguments_not_an_object",
		`{"query":`:                    "arguments_not_an_object",
	} {
		if _, err := run(t, tool, args); problem.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	_, err = run(t, tool, `{"query":"x","limt":5}`)
	e, _ := errors.AsType[*problem.Error](err)
	if e == nil || e.Hint != "Did you mean limit?" || !slices.Contains(e.Valid, "limit") {
		t.Errorf("the nearest argument is not named: %+v", e)
	}
}

func authority(p messages.Profile, s messages.Surface, scope ...string) messages.Authority {
	return messages.Authority{Connection: "conn-1", Profile: p, Surface: s, Scope: scope}
}

func names(s *registry.Set) []string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Name)
	}
	return out
}

func TestCallable_IsProfileAndSurfaceAndScope(t *testing.T) {
	direct := registry.Define(registry.Spec{Name: "execute_code", Group: registry.System, Summary: "Run", Description: "Runs.", Scope: registry.Unscoped,
		Effects: registry.Effects{Composes: true}, Core: true, Code: true, DirectOnly: true},
		func(context.Context, *registry.Call, nothing) (done, error) { return done{}, nil })
	owner := registry.Define(registry.Spec{Name: "server_status", Group: registry.System, Summary: "Status", Description: "Says how the daemon is.", Scope: registry.AllEntities},
		func(context.Context, *registry.Call, nothing) (done, error) { return done{}, nil })
	r := mustNew(t, find(nil, nil), write("write_note", false), write("make_note", true), traffic("post"), direct, owner)
	for _, c := range []struct {
		a      messages.Authority
		inside bool
		want   []string
	}{
		{authority(messages.Observer, messages.SurfaceFull, "*"), false, []string{"post", "execute_code", "server_status", "find_notes"}},
		{authority(messages.Assistant, messages.SurfaceFull, "*"), false, []string{"post", "execute_code", "server_status", "find_notes", "write_note", "make_note"}},
		{authority(messages.Assistant, messages.SurfaceFull, "acme"), false, []string{"post", "execute_code", "find_notes", "write_note", "make_note"}},
		{authority(messages.Assistant, messages.SurfaceFull), false, []string{"post", "execute_code"}},
		{authority(messages.Full, messages.SurfaceCore, "*"), false, []string{"post", "execute_code", "find_notes"}},
		{authority(messages.Full, messages.SurfaceCore, "*"), true, []string{"post", "find_notes"}},
		{authority(messages.Full, messages.SurfaceCode, "acme"), false, []string{"post", "execute_code"}},
		{authority(messages.Full, messages.SurfaceCode, "acme"), true, []string{"post", "find_notes", "write_note", "make_note"}},
		{authority("root", messages.SurfaceFull, "*"), false, nil},
		{authority(messages.Full, "everything", "*"), false, nil},
	} {
		if got := names(r.Callable(c.a, c.inside)); !slices.Equal(got, c.want) {
			t.Errorf("%s/%s/%v inside=%v: %v, want %v", c.a.Profile, c.a.Surface, c.a.Scope, c.inside, got, c.want)
		}
	}
}

func TestAsks_IsTheTableOfTheSpec(t *testing.T) {
	r := mustNew(t, find(nil, nil), write("write_note", false), write("make_note", true), traffic("post"))
	read, _ := r.Lookup("find_notes")
	plain, _ := r.Lookup("sophia.write_note")
	elevated, _ := r.Lookup("sophia_make_note")
	post, _ := r.Lookup("post")
	for profile, want := range map[messages.Profile][4]bool{
		messages.Assistant: {false, true, true, false},
		messages.Full:      {false, false, true, false},
		messages.Portal:    {false, false, false, false},
	} {
		a := authority(profile, messages.SurfaceFull, "*")
		got := [4]bool{registry.Asks(a, read), registry.Asks(a, plain), registry.Asks(a, elevated), registry.Asks(a, post)}
		if got != want {
			t.Errorf("%s: %v, want %v", profile, got, want)
		}
	}
	strict := authority(messages.Full, messages.SurfaceFull, "*")
	strict.WriteApproval = messages.WriteApprovalAlways
	if !registry.Asks(strict, plain) {
		t.Error("write_approval always did not ask")
	}
}

func TestSet_VersionChangesWithTheSurfaceAndOnlyThen(t *testing.T) {
	a := authority(messages.Full, messages.SurfaceFull, "*")
	one := mustNew(t, find(nil, nil), traffic("post")).Callable(a, false).Version()
	again := mustNew(t, traffic("post"), find(nil, nil)).Callable(a, false).Version()
	if one != again {
		t.Error("the order of construction changed the version")
	}
	b := a
	b.Name, b.Connection = "another", "conn-2"
	if mustNew(t, find(nil, nil), traffic("post")).Callable(b, false).Version() != one {
		t.Error("who asks changed the version")
	}
	for what, r := range map[string]*registry.Registry{
		"a tool more":         mustNew(t, find(nil, nil), traffic("post"), write("w", false)),
		"another description": mustNew(t, find(func(s *registry.Spec) { s.Description = "Other." }, nil), traffic("post")),
	} {
		if r.Callable(a, false).Version() == one {
			t.Errorf("%s left the version as it was", what)
		}
	}
}

func TestSet_UnknownToolNamesTheNearestCallable(t *testing.T) {
	r := mustNew(t, find(nil, nil), write("write_note", false), traffic("post"))
	observer := r.Callable(authority(messages.Observer, messages.SurfaceFull, "*"), false)
	for _, spelled := range []string{"sophia.find_notes", "sophia_find_notes", "find_notes"} {
		if tool, err := observer.Find(spelled); err != nil || tool.Name != "find_notes" {
			t.Errorf("%s: %v", spelled, err)
		}
	}
	_, err := observer.Find("sophia.findNotes")
	e, _ := errors.AsType[*problem.Error](err)
	if e == nil || e.Code != registry.CodeUnknownTool || !strings.Contains(e.Hint, "sophia.find_notes") {
		t.Errorf("got %+v", e)
	}
	// What one may not call looks like what doesn't exist, in the hint too.
	_, err = observer.Find("sophia.write_note")
	e, _ = errors.AsType[*problem.Error](err)
	if e == nil || e.Code != registry.CodeUnknownTool || strings.Contains(e.Hint, "write_note") {
		t.Errorf("got %+v", e)
	}
}
