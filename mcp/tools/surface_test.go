package tools_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sophia/actors/connections"
	"sophia/actors/isolates"
	"sophia/mcp/dispatch"
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/mcp/tools"
	"sophia/mcp/transport"
	"sophia/mcp/tsdecl"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

var update = flag.Bool("update", false, "write testdata anew")

// surface is the whole surface over a store with one imported workspace.
type surface struct {
	*testing.T
	*dispatch.Dispatcher
	data  *dataWorld
	reg   *registry.Registry
	about []connections.Seen
	ran   messages.RunRequest
}

func (s *surface) Active(context.Context) []connections.Seen { return s.about }

// Run is a script that makes one call.
func (s *surface) RunChecked(ctx context.Context, r messages.RunRequest, c isolates.Caller, _ func(context.Context) *messages.RunError) (messages.RunResult, error) {
	s.ran = r
	body, err := c.Call(ctx, "sophia.whoami", json.RawMessage(`{}`))
	return messages.RunResult{Status: messages.RunOK, Value: body, SophiaCalls: 1, Calls: []messages.RunCall{{Tool: "sophia.whoami", OK: err == nil}}}, err
}

func newSurface(t *testing.T) *surface {
	t.Helper()
	return newSurfaceWith(t, nil)
}

// newSurfaceWith takes a runner; nil is the surface's own.
func newSurfaceWith(t *testing.T, runner tools.Runner) *surface {
	t.Helper()
	s := &surface{T: t, data: newDataWorld(t)}
	if runner == nil {
		runner = s
	}
	db := s.data.data.DB
	box := inbox.New(db, db)
	var err error
	if s.reg, err = registry.New(tools.All(tools.Services{Data: s.data.data, Inbox: box, Presence: s, Runner: runner})...); err != nil {
		t.Fatal(err)
	}
	if s.Dispatcher, err = dispatch.New(dispatch.Config{Registry: s.reg, Inbox: box, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []messages.Authority{agentA, agentB} {
		_, err := db.Write(context.Background(), store.System("test", ""), func(tx *store.Tx) error {
			return tables.Connections.Insert(tx, messages.ConnectionRow{Authority: a, Created: tx.Now()})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var (
	agentA = messages.Authority{Connection: "conn-a", Name: "Reviewer", Profile: messages.Full, Surface: messages.SurfaceFull, Scope: []string{"*"}}
	agentB = messages.Authority{Connection: "conn-b", Name: "Writer", Profile: messages.Assistant, Surface: messages.SurfaceFull, Scope: []string{"acme"}}
)

func (s *surface) do(a messages.Authority, tool, args string) map[string]any {
	s.Helper()
	m, err := s.try(a, tool, args)
	if err != nil {
		s.Fatalf("%s(%s): %v", tool, args, err)
	}
	return m
}

func (s *surface) try(a messages.Authority, tool, args string) (map[string]any, error) {
	s.Helper()
	r := s.Call(context.Background(), dispatch.Request{Authority: a, Tool: tool, Args: json.RawMessage(args)})
	var m map[string]any
	if err := json.Unmarshal(r.Body, &m); err != nil {
		s.Fatal(err)
	}
	if r.Err != nil {
		return m, r.Err
	}
	return m, nil
}

func codeOf(err error) string { return problem.CodeOf(err) }

func list(v any) []any { out, _ := v.([]any); return out }

const sections = "identity sync_status goal_stack hot_entities interrupts open_questions recommended_actions recent_corrections inbox_summary active_agents pending_approvals recent_mutations recent_reverts upcoming_events deadlines finance_snapshot recent_documents document_tiers wiki_recent code_overview knowledge_gaps skills briefings next_likely_calls capability_summary"

func TestOrient_Has25SectionsOfRealData(t *testing.T) {
	s := newSurface(t)
	s.about = []connections.Seen{{Connection: "conn-b", Name: "Writer", Last: time.Unix(1, 0).UTC()}}
	s.do(agentB, "post_message", `{"body":"hello"}`)
	m := s.do(agentA, "orient", `{"goal":"how long is a lease"}`)
	var got []string
	for k := range m {
		if k != "goal" && k != "_inbox_unread" {
			got = append(got, k)
		}
	}
	want := strings.Fields(sections)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) != 25 {
		t.Errorf("%d sections: %v", len(got), got)
	}
	for path, want := range map[string]any{
		"identity.name": "Reviewer", "sync_status.documents": 4.0, "document_tiers.chip": "4s · 3f · 0i", "code_overview.modules": 1.0,
		"inbox_summary.unread": 1.0, "active_agents.items.0.name": "Writer", "recent_documents.more": false,
		"capability_summary.total_tools": float64(len(s.reg.Tools())), "hot_entities.items.0.entity": "acme",
	} {
		if got := at(m, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if b, _ := json.Marshal(m); len(b) > 12_000 {
		t.Errorf("%d bytes: Codex would cut it", len(b))
	}
	if m := s.do(agentA, "orient", `{"sections":["identity","skills"]}`); len(m) != 3 {
		t.Errorf("two sections: %v", m)
	}
	if m, err := s.try(agentA, "orient", `{"sections":["goals"]}`); problem.CodeOf(err) != "invalid_argument" || !strings.Contains(fmt.Sprint(m["valid"]), "goal_stack") {
		t.Errorf("an unknown section: %v", m)
	}
}

func at(v any, path string) any {
	for _, key := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func TestOrient_ShowsNothingOfAnotherScope(t *testing.T) {
	s := newSurface(t)
	other := agentB
	other.Scope = []string{"globex"}
	m := s.do(other, "orient", `{}`)
	for _, path := range []string{"sync_status.documents", "document_tiers.scanned", "code_overview.modules", "sync_status.code_symbols"} {
		if got := at(m, path); got != 0.0 {
			t.Errorf("%s is %v", path, got)
		}
	}
	if b, _ := json.Marshal(m); strings.Contains(string(b), "README") || strings.Contains(string(b), "acme") {
		t.Errorf("something of acme is in %s", b)
	}
}

// For every authority, each recommended call can be made from where the caller
// is, as it is written there; and where the goal can be searched, directly or
// in a script, that is recommended.
func TestOrient_RecommendsOnlyWhatIsCallable(t *testing.T) {
	s := newSurface(t)
	s.do(agentB, "post_message", `{"body":"hello"}`)
	for _, p := range []messages.Profile{messages.Observer, messages.Assistant, messages.Full, messages.Portal} {
		for _, f := range []messages.Surface{messages.SurfaceCore, messages.SurfaceFull, messages.SurfaceCode} {
			for _, scope := range [][]string{nil, {"acme"}, {"*"}} {
				for _, inside := range []bool{false, true} {
					a := messages.Authority{Connection: "conn-x", Name: "X", Profile: p, Surface: f, Scope: scope}
					set := s.Callable(a, inside)
					r := s.Call(context.Background(), dispatch.Request{Authority: a, Tool: "orient", Args: json.RawMessage(`{"goal":"lease"}`), Inside: inside})
					if r.Err != nil {
						t.Fatal(r.Err)
					}
					var o tools.Orientation
					if err := json.Unmarshal(r.Body, &o); err != nil {
						t.Fatal(err)
					}
					text := ""
					for _, act := range append(o.RecommendedActions.Items, o.NextLikelyCalls.Items...) {
						tool, err := set.Find(act.Tool)
						if err != nil {
							t.Errorf("%s/%s/%v inside=%v: recommended %s", p, f, scope, inside, act.Tool)
							continue
						}
						if err := tool.Check(act.Arguments); err != nil {
							t.Errorf("%s is recommended with %s: %v", act.Tool, act.Arguments, err)
						}
						text += act.Tool + string(act.Arguments)
					}
					if len(scope) > 0 && !strings.Contains(text, "search") {
						t.Errorf("%s/%s/%v inside=%v: no search for the goal in %s", p, f, scope, inside, text)
					}
				}
			}
		}
	}
}

func TestCatalog_IsWhatCanBeCalled(t *testing.T) {
	s := newSurface(t)
	m := s.do(agentA, "capability_catalog", `{}`)
	n := 0
	for _, g := range list(m["groups"]) {
		n += len(list(at(g, "tools")))
		if at(g, "count") != float64(len(list(at(g, "tools")))) {
			t.Errorf("%v: wrong count", at(g, "group"))
		}
	}
	if n != len(s.reg.Tools()) || m["total_tools"] != float64(n) {
		t.Errorf("%d tools listed, total %v, %d in the registry", n, m["total_tools"], len(s.reg.Tools()))
	}
	if again := s.do(agentA, "sophia_capability_catalog", `{"brief":true}`); again["version"] != m["version"] || at(again, "groups.0.tools") != nil {
		t.Errorf("brief: %v", again)
	}
	observer := agentA
	observer.Profile = messages.Observer
	o := s.do(observer, "capability_catalog", `{}`)
	if b, _ := json.Marshal(o); strings.Contains(string(b), "remember_fact") || o["version"] == m["version"] {
		t.Errorf("an observer's catalog: %s", b)
	}
	code := agentA
	code.Surface = messages.SurfaceCode
	c := s.do(code, "capability_catalog", `{"group":"read_knowledge"}`)
	if at(c, "groups.0.tools.0.where") != "script" || c["total_tools"] != m["total_tools"] {
		t.Errorf("the code surface: %v", c)
	}
	if m, err := s.try(agentA, "capability_catalog", `{"group":"nope"}`); problem.CodeOf(err) != "unknown_group" {
		t.Errorf("got %v", m)
	}
}

func TestSdkTypes_OfTheWholeSurfaceCompileStrictly(t *testing.T) {
	s := newSurface(t)
	m := s.do(agentA, "get_sdk_types", `{}`)
	within := s.Callable(agentA, true)
	if len(list(m["methods"])) != len(within.Tools()) || len(m["schemas"].(map[string]any)) != len(within.Tools()) {
		t.Errorf("%d methods for %d tools", len(list(m["methods"])), len(within.Tools()))
	}
	d := m["declarations"].(string)
	if strings.Contains(d, "executeCode") || strings.Contains(d, "getSdkTypes") {
		t.Error("a tool that is for direct calls only is declared")
	}
	one := s.do(agentA, "get_sdk_types", `{"tools":["sophia.query_knowledge"],"schemas":false}`)
	if len(list(one["methods"])) != 1 || len(one["schemas"].(map[string]any)) != 0 {
		t.Errorf("one method: %v", one)
	}
	if _, err := s.try(agentA, "get_sdk_types", `{"tools":["execute_code"]}`); problem.CodeOf(err) != registry.CodeUnknownTool {
		t.Errorf("got %v", err)
	}
	compile(t, d, `
async function use() {
  const [o, facts, docs] = await Promise.all([
    sophia.orient({goal: "x", sections: ["identity"]}),
    sophia.queryKnowledge({}),
    sophia.searchDocuments({query: "mcp", limit: 3, compact: true}),
  ]);
  const name: string | undefined = o.identity?.name;
  const n: number = facts.total + docs.total + docs._inbox_unread;
  const status: "active" | "superseded" | "retracted" = facts.items[0].status;
  // @ts-expect-error the envelope has no hits
  docs.hits;
  // @ts-expect-error there is no such section
  await sophia.orient({sections: ["nope"]});
  // @ts-expect-error query is needed
  await sophia.searchDocuments({});
  // @ts-expect-error there is no such method
  await sophia.executeCode({code: "1"});
}`)
}

// compile runs tsc --strict, as mcp/tsdecl's tests do.
func compile(t *testing.T, declarations, use string) {
	t.Helper()
	tsc := os.Getenv("SOPHIA_TSC")
	if cache, err := os.UserCacheDir(); tsc == "" && err == nil {
		tsc = filepath.Join(cache, "sophia-test", "npm", "node_modules", ".bin", "tsc")
	}
	if _, err := os.Stat(tsc); err != nil {
		if tsc, err = exec.LookPath("tsc"); err != nil {
			t.Skip("tsc_absent: no TypeScript compiler; .ci/setup installs it")
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"sdk.d.ts": declarations, "use.ts": use} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tsc, "--strict", "--noEmit", "--target", "es2022", "--lib", "es2022,dom", "sdk.d.ts", "use.ts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s\n%s", err, out, declarations)
	}
}

func TestExecute_CallsGoTheSameWay(t *testing.T) {
	s := newSurface(t)
	code := agentA
	code.Surface = messages.SurfaceCode
	m := s.do(code, "execute_code", `{"code":"return await sophia.whoami()","input":{"a":[1]}}`)
	if m["status"] != "ok" || at(m, "value.connection") != "conn-a" || at(m, "value._inbox_unread") != 0.0 || m["_inbox_unread"] != 0.0 {
		t.Errorf("got %v", m)
	}
	if s.ran.TimeoutMS != 10_000 || string(s.ran.Input) != `{"a":[1]}` || s.ran.Connection != "conn-a" {
		t.Errorf("the runner got %+v", s.ran)
	}
	if !slices.ContainsFunc(s.ran.Methods, func(m messages.Method) bool { return m.Name == "queryKnowledge" && m.Tool == "sophia.query_knowledge" }) ||
		slices.ContainsFunc(s.ran.Methods, func(m messages.Method) bool { return m.Name == "executeCode" || m.Name == "getSdkTypes" }) {
		t.Errorf("methods: %v", s.ran.Methods)
	}
	if _, err := s.try(code, "execute_code", `{"code":"1","timeout_ms":30001}`); problem.CodeOf(err) != "invalid_argument" {
		t.Errorf("got %v", err)
	}
}

func TestMessages_FromOneAgentToAnother(t *testing.T) {
	s := newSurface(t)
	sent := s.do(agentA, "post_message", `{"channel":"arc:x","kind":"question","body":"Ready?","to":["Writer"]}`)
	s.do(agentA, "post_message", `{"body":"For everyone"}`)
	if m := s.do(agentB, "whoami", `{}`); m["_inbox_unread"] != 2.0 {
		t.Errorf("the other agent's next response says %v", m["_inbox_unread"])
	}
	if m := s.do(agentA, "whoami", `{}`); m["_inbox_unread"] != 0.0 {
		t.Errorf("the sender's own posts wait for it: %v", m["_inbox_unread"])
	}
	sum := s.do(agentB, "read_inbox", `{"summary_only":true}`)
	if sum["total"] != 2.0 || len(list(sum["groups"])) != 2 || len(list(sum["items"])) != 0 || sum["_inbox_unread"] != 2.0 {
		t.Errorf("summary: %v", sum)
	}
	m := s.do(agentB, "read_inbox", `{}`)
	if at(m, "items.0.from") != "Reviewer" || at(m, "items.0.from_id") != "conn-a" || at(m, "items.0.kind") != "question" || at(m, "items.1.body") != "For everyone" || m["_inbox_unread"] != 2.0 {
		t.Errorf("inbox: %v", m)
	}
	if m := s.do(agentB, "read_inbox", `{"compact":true}`); len(at(m, "items.0").(map[string]any)) != 5 {
		t.Errorf("compact: %v", at(m, "items.0"))
	}
	reply := s.do(agentB, "post_message", fmt.Sprintf(`{"body":"Yes","reply_to":%q}`, sent["id"]))
	if reply["thread"] != sent["id"] {
		t.Errorf("the reply is in the thread %v", reply["thread"])
	}
	if m := s.do(agentB, "ack_messages", fmt.Sprintf(`{"up_to":%v}`, m["high_water"])); m["acked"] != 2.0 || m["unread"] != 0.0 || m["_inbox_unread"] != 0.0 {
		t.Errorf("ack: %v", m)
	}
	for args, want := range map[string]string{`{}`: "nothing_to_acknowledge", `{"ids":["post-none"]}`: "not_found"} {
		if _, err := s.try(agentB, "ack_messages", args); problem.CodeOf(err) != want {
			t.Errorf("ack %s: %v", args, err)
		}
	}
	if m, err := s.try(agentA, "post_message", `{"body":"x","to":["Nobody"]}`); problem.CodeOf(err) != "unknown_recipient" || !strings.Contains(fmt.Sprint(m["valid"]), "Writer") {
		t.Errorf("to nobody: %v", m)
	}
	if m, err := s.try(agentA, "post_message", `{"body":"x","sender":"Owner"}`); problem.CodeOf(err) != "unknown_argument" {
		t.Errorf("a client named its own sender: %v", m)
	}
}

func TestInbox_PagesAreStable(t *testing.T) {
	s := newSurface(t)
	for i := range 5 {
		s.do(agentA, "post_message", fmt.Sprintf(`{"body":"%d"}`, i))
	}
	first := s.do(agentB, "read_inbox", `{"limit":2}`)
	s.do(agentA, "post_message", `{"body":"5"}`)
	var bodies []string
	for cursor := first["cursor"]; cursor != nil; {
		m := s.do(agentB, "read_inbox", fmt.Sprintf(`{"limit":2,"cursor":%q}`, cursor))
		for _, p := range list(m["items"]) {
			bodies = append(bodies, at(p, "body").(string))
		}
		cursor = m["cursor"]
	}
	if got := strings.Join(bodies, ""); got != "2345" {
		t.Errorf("after the first page: %s", got)
	}
	if _, err := s.try(agentA, "read_inbox", fmt.Sprintf(`{"limit":2,"cursor":%q}`, first["cursor"])); err == nil {
		t.Error("another connection's cursor was accepted")
	}
}

// Toolsnaps: what clients see of each tool, one file a tool. -update writes them.
func TestSnaps_OfEachTool(t *testing.T) {
	s := newSurface(t)
	var want []string
	for _, tool := range s.reg.Tools() {
		snap := struct {
			Tool json.RawMessage `json:"tool"`
			SDK  string          `json:"sdk"`
		}{SDK: tool.Method}
		var err error
		if snap.Tool, err = json.Marshal(transport.MCPTool(tool, false)); err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(snap, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
		file := filepath.Join("testdata", "snaps", tool.Name+".json")
		want = append(want, file)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != string(b) {
			t.Errorf("%s differs from what is declared (%v); if that is meant: go test ./mcp/tools -run Snaps -update", file, err)
		}
	}
	have, _ := filepath.Glob(filepath.Join("testdata", "snaps", "*.json"))
	for _, f := range have {
		if !slices.Contains(want, f) {
			t.Errorf("%s is of no tool", f)
		}
	}
}

// A surface's size is context that every session pays for. Four bytes are
// taken for a token.
func TestBudget_OfEachSurface(t *testing.T) {
	s := newSurface(t)
	got := map[string]int{}
	for _, f := range []messages.Surface{messages.SurfaceCore, messages.SurfaceFull, messages.SurfaceCode} {
		a := agentA
		a.Surface = f
		for _, tool := range s.Callable(a, false).Tools() {
			b, err := json.Marshal(transport.MCPTool(tool, false))
			if err != nil {
				t.Fatal(err)
			}
			got[string(f)] += len(b) / 4
		}
	}
	var methods []tsdecl.Method
	for _, tool := range s.Callable(agentA, true).Tools() {
		methods = append(methods, tools.Declared(tool))
	}
	got["declarations"] = len(tsdecl.Declarations(methods)) / 4
	file := filepath.Join("testdata", "budget.json")
	if *update {
		b, _ := json.MarshalIndent(got, "", "  ")
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var budget map[string]int
	if err := json.Unmarshal(b, &budget); err != nil {
		t.Fatal(err)
	}
	for name, n := range got {
		if limit := budget[name] * 105 / 100; n > limit {
			t.Errorf("%s: %d tokens, %d are budgeted; if that is meant: go test ./mcp/tools -run Budget -update", name, n, budget[name])
		}
	}
}
