package transport_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sophia/mcp/transport"
	"sophia/messages"
	"sophia/messages/problem"
)

var errFull = problem.New("too_many_calls", "too much is under way on this connection").WithHint("Wait for a call to end.")

// On mcp-go's own transport the last notification of a call is lost nearly always.

func TestNotifications_AllOfACallArriveBeforeItsResult(t *testing.T) {
	eras(t, func(t *testing.T, w *world, open func(string) *client) {
		const burst = 300
		w.fixture("notify", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s := server.ServerFromContext(ctx)
			for n := range burst {
				if err := s.SendNotificationToClient(ctx, "notifications/test", map[string]any{"n": n}); err != nil {
					return nil, err
				}
			}
			return mcp.NewToolResultText("done"), nil
		})
		c := open("alpha")
		for call := range 20 {
			got := all(t, c.do(c.tool(fmt.Sprint(call), "notify", `{}`, "")))
			if len(got) != burst+1 {
				t.Fatalf("call %d: %d messages, want %d", call, len(got), burst+1)
			}
			for n, m := range got[:burst] {
				if m.Method != "notifications/test" || m.Params.N != n {
					t.Fatalf("call %d: message %d is %+v", call, n, m)
				}
			}
			if string(got[burst].ID) != fmt.Sprint(call) || got[burst].Result == nil {
				t.Fatalf("call %d: the result is not last: %+v", call, got[burst])
			}
		}
	})
}

func TestProgress_GoesToItsOwnCallOnly(t *testing.T) {
	eras(t, func(t *testing.T, w *world, open func(string) *client) {
		c := open("alpha")
		var wg sync.WaitGroup
		for n := range 16 {
			wg.Go(func() {
				r, err := c.doCtx(context.Background(), c.tool(fmt.Sprint(n), "sophia.echo", fmt.Sprintf(`{"text":"call %d","steps":20}`, n), fmt.Sprintf(`"token-%d"`, n)))
				if err != nil {
					t.Error(err)
					return
				}
				got := all(t, r)
				if len(got) != 21 {
					t.Errorf("call %d: %d messages, want 21", n, len(got))
				}
				for _, m := range got[:len(got)-1] {
					if string(m.Params.Token) != fmt.Sprintf(`"token-%d"`, n) || m.Params.Message != fmt.Sprintf("call %d", n) {
						t.Errorf("call %d got %+v", n, m)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestCancel_AnotherClientCannot(t *testing.T) {
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t)
			open := w.legacy
			if era == "2026-07-28" {
				open = w.stateless
			}
			victim := open("alpha")
			attackers := []*client{open("beta"), open("alpha")} // another connection, another session of the same one
			done := make(chan message, 1)
			go func() {
				if r, err := victim.doCtx(context.Background(), victim.tool("5", "sophia.wait", `{"text":"x"}`, "")); err == nil {
					done <- last(t, r)
				}
			}()
			<-w.began
			for _, a := range attackers {
				r := a.do(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + era + `","io.modelcontextprotocol/clientCapabilities":{}}}}`)
				r.Body.Close()
				if r.StatusCode != http.StatusAccepted {
					t.Errorf("the notification got %s", r.Status)
				}
			}
			close(w.go_)
			if err := <-w.ended; err != nil {
				t.Errorf("the call was cancelled by somebody else: %v", err)
			}
			if _, s := result(t, <-done); s["text"] != "x" {
				t.Errorf("got %v", s)
			}
		})
	}
}

func TestCancel_TheSameSessionCan(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := c.doCtx(context.Background(), c.tool("5", "sophia.wait", `{"text":"x"}`, "")); err == nil {
			r.Body.Close()
		}
	}()
	<-w.began
	c.do(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`).Body.Close()
	if err := <-w.ended; err == nil {
		t.Error("the handler was not cancelled")
	}
	<-done
}

func TestCancel_ClosingTheStreamReachesTheHandler(t *testing.T) {
	eras(t, func(t *testing.T, w *world, open func(string) *client) {
		c := open("alpha")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r, err := c.doCtx(ctx, c.tool("1", "sophia.wait", `{"text":"x"}`, "")); err == nil {
				r.Body.Close()
			}
		}()
		<-w.began
		cancel()
		if err := <-w.ended; err == nil {
			t.Error("the handler went on")
		}
		<-done
	})
}

func TestTools_ListDependsOnTheAuthorityAlone(t *testing.T) {
	eras(t, func(t *testing.T, w *world, open func(string) *client) {
		w.mint("observer", authority("conn-o", messages.Observer))
		under := authority("conn-u", messages.Full)
		under.ToolNames = messages.UnderscoreNames
		w.mint("cursor", under)
		list := func(c *client) string {
			var names struct {
				Tools []struct {
					Name        string         `json:"name"`
					Annotations map[string]any `json:"annotations"`
				} `json:"tools"`
			}
			m := last(t, c.do(c.msg("1", "tools/list", "", "")))
			if err := json.Unmarshal(m.Result, &names); err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, n := range names.Tools {
				out = append(out, n.Name)
				if len(n.Annotations) != 4 {
					t.Errorf("%s has the annotations %v", n.Name, n.Annotations)
				}
			}
			return strings.Join(out, " ")
		}
		c := open("alpha")
		before := list(c)
		if want := "sophia.echo sophia.flood sophia.list_things sophia.wait sophia.write_thing"; before != want {
			t.Errorf("listed %s", before)
		}
		for _, name := range []string{"sophia.echo", "sophia_echo", "sophia.nope"} {
			c.do(c.tool("1", name, `{"text":"x"}`, "")).Body.Close()
		}
		if after := list(c); after != before {
			t.Errorf("calls changed the list to %s", after)
		}
		if got := list(open("observer")); strings.Contains(got, "write") {
			t.Errorf("an observer sees %s", got)
		}
		if got := list(open("cursor")); strings.Contains(got, ".") || !strings.Contains(got, "sophia_list_things") {
			t.Errorf("listed %s", got)
		}
	})
}

func TestTools_BothSpellingsAndStructuredErrors(t *testing.T) {
	eras(t, func(t *testing.T, w *world, open func(string) *client) {
		c := open("alpha")
		for _, name := range []string{"sophia.echo", "sophia_echo"} {
			r, s := result(t, last(t, c.do(c.tool("1", name, `{"text":"<ü>"}`, ""))))
			if r.IsError || s["text"] != "<ü>" || s["_inbox_unread"] != 7.0 || r.Content[0].Text != string(r.StructuredContent) {
				t.Errorf("%s: %+v", name, r)
			}
			if want := map[bool]string{true: "complete"}[c.modern]; r.ResultType != want {
				t.Errorf("%s: resultType %q", name, r.ResultType)
			}
		}
		for args, want := range map[string][2]string{
			`"name":"sophia.ehco","arguments":{}`:                 {"unknown_tool", "sophia.echo"},
			`"name":"sophia.echo","arguments":{"txt":"x"}`:        {"unknown_argument", "text"},
			`"name":"sophia.echo"`:                                {"missing_argument", "text"},
			`"name":"sophia.write_thing","arguments":{"text":""}`: {"approval_unavailable", "tray"},
			`"name":"sophia.echo","arguments":[]`:                 {"arguments_not_an_object", "object"},
		} {
			r, s := result(t, last(t, c.do(c.msg("1", "tools/call", args, ""))))
			if !r.IsError || s["code"] != want[0] || !strings.Contains(fmt.Sprint(s["hint"]), want[1]) || s["_inbox_unread"] != 7.0 {
				t.Errorf("%s: %v", args, s)
			}
		}
		if m := last(t, c.do(c.msg("1", "tools/call", `"arguments":{}`, ""))); m.Error == nil || m.Error.Code != mcp.INVALID_PARAMS && m.Error.Code != mcp.HEADER_MISMATCH {
			t.Errorf("a call without a name: %+v", m)
		}
		w.mu.Lock()
		w.refusal = errFull
		w.mu.Unlock()
		if r, s := result(t, last(t, c.do(c.tool("1", "sophia.echo", `{"text":"x"}`, "")))); !r.IsError || s["code"] != "too_many_calls" {
			t.Errorf("with too much under way: %v", s)
		}
	})
}

// Calls of Sophia's tools don't pass through mcp-go. What they answer must be

// what they would answer if they did.

func TestTools_AnswerAsThroughHandleMessage(t *testing.T) {
	direct, via := newWorld(t), newWorld(t, transport.ViaServer)
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		a, b := direct.legacy("alpha"), via.legacy("alpha")
		if era == "2026-07-28" {
			a, b = direct.stateless("alpha"), via.stateless("alpha")
		}
		for _, call := range []string{
			`"name":"sophia.echo","arguments":{"text":"<x>","steps":2}`, `"name":"sophia_echo","arguments":{"text":""}`, `"name":"sophia.echo"`,
			`"name":"sophia.echo","arguments":null`, `"name":"sophia.nope","arguments":{}`, `"name":"sophia.list_things","arguments":{"compact":true}`,
			`"name":"sophia.write_thing","arguments":{"text":"x"}`, `"name":7`, `"name":""`, `"arguments":{}`, `"name":"sophia.echo","arguments":7`,
		} {
			for _, token := range []string{"", `"t"`} {
				left, right := a.do(a.msg("1", "tools/call", call, token)), b.do(b.msg("1", "tools/call", call, token))
				x, y := all(t, left), all(t, right)
				if left.StatusCode != right.StatusCode || !same(t, x, y) {
					t.Errorf("%s %s: %s and %s:\n%s\n%s", era, call, left.Status, right.Status, show(x), show(y))
				}
			}
		}
	}
}

func show(m []message) string { b, _ := json.Marshal(m); return string(b) }

func same(t *testing.T, x, y []message) bool {
	t.Helper()
	var a, b any
	if json.Unmarshal([]byte(show(x)), &a) != nil || json.Unmarshal([]byte(show(y)), &b) != nil {
		t.Fatal("not JSON")
	}
	return reflect.DeepEqual(a, b)
}

// Clients that check structured content do so for errors too.

func TestTools_EveryResultFitsThePublishedSchema(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	var list struct {
		Tools []struct {
			Name         string             `json:"name"`
			OutputSchema *jsonschema.Schema `json:"outputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(last(t, c.do(c.msg("1", "tools/list", "", ""))).Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		rs, err := tool.OutputSchema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{`{"text":"x"}`, `{}`, `{"compact":true}`, `{"fields":[]}`, `{"fields":["nope"]}`, `{"nope":1}`} {
			if tool.Name == "sophia.wait" || tool.Name == "sophia.flood" {
				args = `{"nope":1}`
			}
			r, s := result(t, last(t, c.do(c.tool("1", tool.Name, args, ""))))
			if err := rs.Validate(s); err != nil {
				t.Errorf("%s %s (error %v): %s: %v", tool.Name, args, r.IsError, r.StructuredContent, err)
			}
		}
		if rs.Validate(map[string]any{"_inbox_unread": 1}) == nil {
			t.Errorf("%s: an empty result fits", tool.Name)
		}
	}
}

func TestElicitation_AsksOnTheCallsOwnStream(t *testing.T) {
	w := newWorld(t)
	w.fixture("ask", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "Name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(string(res.Action)), nil
	})
	c := w.legacy("alpha")
	r := c.do(c.tool("1", "ask", `{}`, ""))
	defer r.Body.Close()
	s := bufio.NewScanner(r.Body)
	var got []message
	for s.Scan() {
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		if !ok {
			continue
		}
		m := decode(t, []byte(data))
		if got = append(got, m); m.Method == "elicitation/create" {
			other := w.legacy("beta") // who doesn't know the id of this session, and so changes nothing
			other.do(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"decline"}}`).Body.Close()
			answer := c.do(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{}}}`)
			answer.Body.Close()
			if answer.StatusCode != 202 {
				t.Fatalf("the answer got %s", answer.Status)
			}
		}
	}
	if len(got) != 2 || !strings.Contains(string(got[1].Result), "accept") {
		t.Errorf("got %+v", got)
	}
}

// listChanged gives subscriptions/listen something to hold its stream open for.
