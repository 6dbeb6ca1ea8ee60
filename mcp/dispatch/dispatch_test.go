package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sophia/actors/isolates/runclock"
	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
)

type noteIn struct {
	Slug string            `json:"slug" jsonschema:"which note" min:"1"`
	Text string            `json:"text,omitempty"`
	Tags map[string]string `json:"tags,omitempty"`
}

type noteOut struct {
	Slug     string `json:"slug"`
	Approval string `json:"approval"`
}

type empty struct{}

type note struct {
	Slug string `json:"slug"`
	Text string `json:"text"`
}

type world struct {
	*dispatch.Dispatcher
	written  []noteIn
	approved []messages.Change // as the last write was told
	asked    []messages.ApprovalRequest
	verdict  func(messages.ApprovalRequest) (messages.ApprovalVerdict, error)
	unread   int
	inboxErr error
	records  []dispatch.Record
	revoked  bool
}

func (w *world) Unread(context.Context, messages.Authority) (int, error) { return w.unread, w.inboxErr }

func (w *world) Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	w.asked = append(w.asked, r)
	return w.verdict(r)
}

func (w *world) live(context.Context, messages.Authority) error {
	if w.revoked {
		return problem.New("invalid_or_revoked_bearer", "the connection was revoked")
	}
	return nil
}

func approve(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	return messages.ApprovalVerdict{ID: "ap-1", Outcome: messages.OutcomeApproved, Digest: r.Digest}, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{verdict: approve}
	writes := registry.Effects{Writes: []string{"notes"}}
	write := func(_ context.Context, c *registry.Call, in noteIn) (noteOut, error) {
		w.written = append(w.written, in)
		w.approved = c.Approved
		return noteOut{in.Slug, c.Approval}, nil
	}
	preview := func(_ context.Context, _ *registry.Call, in noteIn) ([]messages.Change, error) {
		if in.Slug == "missing" {
			return nil, problem.New("not_found", "there is no note %s", in.Slug)
		}
		after, err := json.Marshal(in)
		return []messages.Change{{Table: "notes", Key: in.Slug, After: after}}, err
	}
	reg, err := registry.New(
		registry.Define(registry.Spec{Name: "write_note", Group: registry.MutateWiki, Summary: "Write a note", Description: "Writes.", Effects: writes}, write, preview),
		registry.Define(registry.Spec{Name: "make_note", Group: registry.MutateWiki, Summary: "Make a note", Description: "Makes.",
			Effects: registry.Effects{Writes: []string{"notes"}, Elevated: true}}, write, preview),
		registry.Define(registry.Spec{Name: "list_notes", Group: registry.ReadWiki, Summary: "List", Description: "Lists.", Compact: []string{"slug"}},
			func(_ context.Context, c *registry.Call, in struct {
				Count int `json:"count,omitempty"`
			}) (registry.Page[note], error) {
				p := registry.Page[note]{Total: in.Count}
				for range in.Count {
					p.Items = append(p.Items, note{"a", strings.Repeat("x", 100)})
				}
				return p, nil
			}),
		registry.Define(registry.Spec{Name: "panics", Group: registry.System, Summary: "Panics", Description: "Panics."},
			func(context.Context, *registry.Call, empty) (noteOut, error) { panic("secret detail") }),
		registry.Define(registry.Spec{Name: "fails", Group: registry.System, Summary: "Fails", Description: "Fails."},
			func(context.Context, *registry.Call, empty) (noteOut, error) {
				return noteOut{}, errors.New("secret detail")
			}),
		registry.Define(registry.Spec{Name: "waits", Group: registry.System, Summary: "Waits", Description: "Waits."},
			func(ctx context.Context, _ *registry.Call, _ empty) (noteOut, error) {
				<-ctx.Done()
				return noteOut{}, ctx.Err()
			}),
		registry.Define(registry.Spec{Name: "nothing", Group: registry.System, Summary: "Nothing", Description: "Nothing."},
			func(context.Context, *registry.Call, empty) (empty, error) { return empty{}, nil }),
		registry.Define(registry.Spec{Name: "compose", Group: registry.System, Summary: "Compose", Description: "Composes.",
			Effects: registry.Effects{Composes: true}, DirectOnly: true},
			func(ctx context.Context, c *registry.Call, in struct {
				Tool string `json:"tool"`
			}) (struct {
				Got json.RawMessage `json:"got"`
			}, error) {
				body, err := c.Dispatch(ctx, in.Tool, []byte(`{"slug":"s"}`))
				return struct {
					Got json.RawMessage `json:"got"`
				}{body}, err
			}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.Dispatcher, err = dispatch.New(dispatch.Config{Registry: reg, Gate: w, Inbox: w, Live: w.live, MaxResult: 4096, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Observe: func(r dispatch.Record) { w.records = append(w.records, r) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func who(p messages.Profile) messages.Authority {
	return messages.Authority{Connection: "conn-1", Name: "Agent", Profile: p, Surface: messages.SurfaceFull, Scope: []string{"*"}}
}

func (w *world) call(t *testing.T, p messages.Profile, tool, args string) (map[string]any, *problem.Error) {
	t.Helper()
	r := w.Call(context.Background(), dispatch.Request{Authority: who(p), Tool: tool, Args: json.RawMessage(args)})
	var m map[string]any
	if err := json.Unmarshal(r.Body, &m); err != nil {
		t.Fatalf("%s: the body %q is not an object: %v", tool, r.Body, err)
	}
	if _, ok := m["_inbox_unread"].(float64); !ok {
		t.Errorf("%s: no _inbox_unread in %s", tool, r.Body)
	}
	return m, r.Err
}

func TestCall_EveryResponseCarriesTheInboxCount(t *testing.T) {
	w := newWorld(t)
	w.unread = 3
	for tool, args := range map[string]string{
		"sophia.list_notes": `{}`, "sophia_list_notes": `{"count":2}`, "sophia.nothing": ``,
		"sophia.nope": `{}`, "sophia.write_note": `{}`, "sophia.panics": `{}`, "sophia.fails": `null`,
	} {
		if m, _ := w.call(t, messages.Full, tool, args); m["_inbox_unread"] != 3.0 {
			t.Errorf("%s: %v", tool, m)
		}
	}
	w.inboxErr = errors.New("disk")
	if m, err := w.call(t, messages.Full, "sophia.nothing", `{}`); err != nil || m["_inbox_unread"] != -1.0 {
		t.Errorf("an inbox that can't be counted gave %v, %v", m, err)
	}
}

func TestCall_ErrorsAreStructuredAndShowNothingInternal(t *testing.T) {
	w := newWorld(t)
	for tool, want := range map[string]string{"sophia.panics": "internal", "sophia.fails": "internal", "sophia.nope": "unknown_tool"} {
		m, err := w.call(t, messages.Full, tool, `{}`)
		if err == nil || err.Code != want || m["code"] != want || m["message"] == "" {
			t.Errorf("%s: %v", tool, m)
		}
		if b, _ := json.Marshal(m); strings.Contains(string(b), "secret detail") || strings.Contains(string(b), ".go:") {
			t.Errorf("%s shows an internal detail: %s", tool, b)
		}
	}
	m, _ := w.call(t, messages.Full, "sophia.list_note", `{}`)
	if !strings.Contains(m["hint"].(string), "sophia.list_notes") {
		t.Errorf("the nearest tool is not named: %v", m)
	}
}

func TestCall_ObserverCantReachAWriteTool(t *testing.T) {
	w := newWorld(t)
	for _, tool := range []string{"sophia.write_note", "sophia_make_note"} {
		if _, err := w.call(t, messages.Observer, tool, `{"slug":"s"}`); err == nil || err.Code != registry.CodeUnknownTool {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if len(w.written)+len(w.asked) != 0 {
		t.Errorf("written %v, asked %v", w.written, w.asked)
	}
}

func TestGate_AsksAsTheSpecSays(t *testing.T) {
	for _, c := range []struct {
		p     messages.Profile
		tool  string
		asked int
	}{
		{messages.Assistant, "write_note", 1}, {messages.Assistant, "make_note", 1}, {messages.Assistant, "list_notes", 0},
		{messages.Full, "write_note", 0}, {messages.Full, "make_note", 1},
		{messages.Portal, "write_note", 0}, {messages.Portal, "make_note", 0},
	} {
		w := newWorld(t)
		args := `{"slug":"s"}`
		if c.tool == "list_notes" {
			args = `{}`
		}
		if _, err := w.call(t, c.p, c.tool, args); err != nil {
			t.Errorf("%s %s: %v", c.p, c.tool, err)
		}
		if len(w.asked) != c.asked {
			t.Errorf("%s %s: asked %d times, want %d", c.p, c.tool, len(w.asked), c.asked)
		}
	}
}

func TestGate_ShowsWhatRunsAndNothingElseRuns(t *testing.T) {
	w := newWorld(t)
	m, err := w.call(t, messages.Assistant, "write_note", `{ "text":"<b>", "slug":"s" }`)
	if err != nil || m["approval"] != "ap-1" {
		t.Fatalf("%v %v", m, err)
	}
	r := w.asked[0]
	if string(r.Arguments) == "" || r.Tool != "sophia.write_note" || r.Requester != "Agent" || r.Connection != "conn-1" || len(r.Preview) != 1 || r.Preview[0].Key != "s" {
		t.Errorf("the owner saw %+v", r)
	}
	if !reflect.DeepEqual(w.approved, r.Preview) {
		t.Errorf("the owner approved %+v, and the tool is told %+v", r.Preview, w.approved)
	}
	// An object given twice would be merged by encoding/json.
	if _, err := w.call(t, messages.Assistant, "write_note", `{"slug":"s","tags":{"a":"1"},"tags":{"b":"2"}}`); err == nil {
		t.Errorf("an ambiguous object ran: %+v", w.written)
	}
}

func TestGate_ARefusalLeavesEverythingAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		verdict func(messages.ApprovalRequest) (messages.ApprovalVerdict, error)
		code    string
	}{
		"denied": {func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			return v(r, messages.OutcomeDenied), nil
		}, "approval_denied"},
		"timed out": {func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			return v(r, messages.OutcomeTimedOut), nil
		}, "approval_timed_out"},
		"withdrawn": {func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			return v(r, messages.OutcomeWithdrawn), nil
		}, "approval_withdrawn"},
		"nonsense": {func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) { return v(r, ""), nil }, "approval_withdrawn"},
		"for another call": {func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			r.Digest = strings.Repeat("0", 64)
			return v(r, messages.OutcomeApproved), nil
		}, dispatch.CodeMismatch},
		"gate down": {func(messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			return messages.ApprovalVerdict{}, problem.New("gate_down", "the gate is down")
		}, "gate_down"},
	} {
		w := newWorld(t)
		w.verdict = c.verdict
		_, err := w.call(t, messages.Assistant, "write_note", `{"slug":"s"}`)
		if err == nil || err.Code != c.code || err.Code != "gate_down" && err.Hint == "" {
			t.Errorf("%s: %+v, want %s", name, err, c.code)
		}
		if len(w.written) != 0 {
			t.Errorf("%s: it was written all the same", name)
		}
	}
}

func v(r messages.ApprovalRequest, outcome string) messages.ApprovalVerdict {
	return messages.ApprovalVerdict{ID: "ap-1", Outcome: outcome, Digest: r.Digest, Reason: "because"}
}

func TestGate_TheOwnerIsNotBotheredWithACallThatWouldFail(t *testing.T) {
	w := newWorld(t)
	for args, want := range map[string]string{`{}`: "missing_argument", `{"slug":"s","txt":"x"}`: "unknown_argument", `{"slug":"missing"}`: "not_found"} {
		if _, err := w.call(t, messages.Assistant, "write_note", args); err == nil || err.Code != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	if len(w.asked) != 0 {
		t.Errorf("asked %d times", len(w.asked))
	}
}

func TestGate_WithoutAGateNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	d, err := dispatch.New(dispatch.Config{Registry: w.Registry(), Inbox: w})
	if err != nil {
		t.Fatal(err)
	}
	r := d.Call(context.Background(), dispatch.Request{Authority: who(messages.Assistant), Tool: "write_note", Args: json.RawMessage(`{"slug":"s"}`)})
	if r.Err == nil || r.Err.Code != dispatch.CodeNoGate || len(w.written) != 0 {
		t.Errorf("%v, written %v", r.Err, w.written)
	}
}

func TestGate_WaitingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		paused := 0
		w.verdict = func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
			time.Sleep(25 * time.Second) // virtual
			if paused != 1 {
				t.Errorf("the run's clock is paused %d times while the owner is asked", paused)
			}
			return v(r, messages.OutcomeApproved), nil
		}
		var reported []float64
		run := runclock.With(t.Context(), func() func() { paused++; return func() { paused-- } })
		r := w.Call(run, dispatch.Request{Authority: who(messages.Assistant), Tool: "write_note", Args: json.RawMessage(`{"slug":"s"}`),
			Report: func(done, _ float64, _ string) { reported = append(reported, done) }})
		if r.Err != nil || !slices.Equal(reported, []float64{0, 1, 2}) {
			t.Errorf("%v, reported %v", r.Err, reported)
		}
		if paused != 0 {
			t.Error("the run's clock was not started again")
		}
	})
}

func TestCall_ATooLargeResultIsRefusedWithHowToNarrowIt(t *testing.T) {
	w := newWorld(t)
	_, err := w.call(t, messages.Full, "list_notes", `{"count":100}`)
	if err == nil || err.Code != dispatch.CodeTooLarge || !strings.Contains(err.Hint, "compact") {
		t.Errorf("%v", err)
	}
	if _, err := w.call(t, messages.Full, "list_notes", `{"count":100,"compact":true}`); err != nil {
		t.Errorf("compact did not help: %v", err)
	}
}

func TestCall_CancellationReachesTheHandler(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := w.Call(ctx, dispatch.Request{Authority: who(messages.Full), Tool: "waits"})
	if r.Err == nil || r.Err.Code != dispatch.CodeCancelled {
		t.Errorf("%v", r.Err)
	}
}

func TestInside_GoesTheSameWay(t *testing.T) {
	w := newWorld(t)
	m, err := w.call(t, messages.Assistant, "compose", `{"tool":"sophia.write_note"}`)
	if err != nil || len(w.asked) != 1 || len(w.written) != 1 {
		t.Fatalf("%v %v: asked %d, written %d", m, err, len(w.asked), len(w.written))
	}
	if m["got"].(map[string]any)["_inbox_unread"] == nil {
		t.Error("the inner response has no inbox count")
	}
	w.verdict = func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
		return v(r, messages.OutcomeDenied), nil
	}
	if _, err := w.call(t, messages.Assistant, "compose", `{"tool":"write_note"}`); err == nil || err.Code != "approval_denied" {
		t.Errorf("a denied write inside: %v", err)
	}
	if _, err := w.call(t, messages.Observer, "compose", `{"tool":"write_note"}`); err == nil || err.Code != registry.CodeUnknownTool {
		t.Errorf("an observer's write inside: %v", err)
	}
	if _, err := w.call(t, messages.Full, "compose", `{"tool":"compose"}`); err == nil || err.Code != registry.CodeUnknownTool {
		t.Errorf("a tool that is for direct calls only ran inside: %v", err)
	}
	if n := len(w.records); n != 8 || !w.records[0].Inside || w.records[1].Inside || w.records[0].Approval != "ap-1" {
		t.Errorf("the audit saw %d calls: %+v", n, w.records)
	}
}

func TestInside_ARevokedConnectionsScriptCallsNothingMore(t *testing.T) {
	w := newWorld(t)
	w.revoked = true // after the bearer of the script itself was looked up
	for _, p := range []messages.Profile{messages.Full, messages.Assistant} {
		if _, err := w.call(t, p, "compose", `{"tool":"write_note"}`); err == nil || err.Code != "invalid_or_revoked_bearer" {
			t.Errorf("%s: %v", p, err)
		}
	}
	if len(w.written) > 0 || len(w.asked) > 0 {
		t.Errorf("written %v, asked %v", w.written, w.asked)
	}
}

func TestGate_ApprovedAfterTheRevocationRunsNothing(t *testing.T) {
	w := newWorld(t)
	w.verdict = func(r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
		w.revoked = true // while the owner reads
		return approve(r)
	}
	if _, err := w.call(t, messages.Assistant, "write_note", `{"slug":"s"}`); err == nil || err.Code != "invalid_or_revoked_bearer" || len(w.written) > 0 {
		t.Errorf("%v, written %v", err, w.written)
	}
}
