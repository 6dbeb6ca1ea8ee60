package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

func TestSession_BelongsToOneConnection(t *testing.T) {
	w := newWorld(t)
	a := w.legacy("alpha")
	for what, c := range map[string]struct {
		client *client
		status int
	}{
		"its own":             {a, 200},
		"another connection":  {&client{w: w, bearer: "beta", session: a.session}, 404},
		"one never issued":    {&client{w: w, bearer: "alpha", session: "0123456789abcdef0123456789abcdef"}, 404},
		"none at all":         {&client{w: w, bearer: "alpha"}, 400},
		"an unknown protocol": {&client{w: w, bearer: "alpha", session: a.session, header: map[string]string{"MCP-Protocol-Version": "1999-01-01"}}, 400},
		"an older protocol":   {&client{w: w, bearer: "alpha", session: a.session, header: map[string]string{"MCP-Protocol-Version": "2025-06-18"}}, 200},
	} {
		r := c.client.do(a.msg("1", "tools/list", "", ""))
		r.Body.Close()
		if r.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", what, r.Status, c.status)
		}
	}
	r, err := w.hc.Do(a.request(context.Background(), "DELETE", nil))
	if err != nil || r.StatusCode != 204 {
		t.Fatalf("delete: %v %v", r, err)
	}
	r.Body.Close()
	r = a.do(a.msg("1", "tools/list", "", ""))
	r.Body.Close()
	if r.StatusCode != 404 {
		t.Errorf("a deleted session: %s", r.Status)
	}
}

func TestSession_IdleOnesGoAndOpenStreamsKeepTheirs(t *testing.T) {
	w := newWorld(t, func(c *transport.Config) { c.SessionIdle = 20 * time.Millisecond; c.KeepAlive = 5 * time.Millisecond })
	idle, open := w.legacy("alpha"), w.legacy("alpha")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := w.hc.Do(open.request(ctx, "GET", nil))
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("%v %v", stream, err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	for w.tr.Sessions() > 1 { // each turn waits for a sign of life on the stream
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("the open stream ended: %v", err)
		}
	}
	if r := idle.do(idle.msg("1", "ping", "", "")); r.StatusCode != 404 {
		t.Errorf("the idle session: %s", r.Status)
	}
	w.revoke("alpha")
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream of a revoked bearer ended with %v", err)
	}
	for w.tr.Sessions() > 0 { // and its session after it
		time.Sleep(0)
	}
}

func TestSession_ManyDontAddUp(t *testing.T) {
	w := newWorld(t, func(c *transport.Config) { c.MaxSessions = 3 })
	first := w.legacy("alpha")
	other := w.legacy("beta")
	for range 5 {
		w.legacy("alpha")
	}
	if n := w.tr.Sessions(); n != 4 {
		t.Errorf("%d sessions, want 3 of one connection and 1 of the other", n)
	}
	for what, c := range map[string]struct {
		client *client
		status int
	}{"the longest idle": {first, 404}, "another connection's": {other, 200}} {
		r := c.client.do(c.client.msg("1", "ping", "", ""))
		r.Body.Close()
		if r.StatusCode != c.status {
			t.Errorf("%s: %s", what, r.Status)
		}
	}
}

func TestBody_IsBounded(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	big := c.tool("1", "sophia.echo", `{"text":"`+strings.Repeat("x", 65<<10)+`"}`, "")
	for what, body := range map[string]io.Reader{"announced": strings.NewReader(big), "chunked": io.MultiReader(strings.NewReader(big))} {
		r, err := w.hc.Do(c.request(context.Background(), "POST", body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 413 {
			t.Errorf("%s: %s", what, r.Status)
		}
	}
	r, _ := http.NewRequest("POST", w.http.URL+"/api/v1/tools/echo", strings.NewReader(big))
	r.Header.Set("Authorization", "Bearer alpha")
	if res, err := w.hc.Do(r); err != nil || res.StatusCode != 413 {
		t.Errorf("REST: %v %v", res, err)
	}
}

func TestHostAndOrigin_StopRebinding(t *testing.T) {
	w := newWorld(t, func(c *transport.Config) { c.Hosts = []string{"sophia.internal"} })
	c := w.legacy("alpha")
	for _, x := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 200}, {"localhost:8765", "", 200}, {"[::1]:8765", "", 200}, {"sophia.internal", "", 200}, {"LOCALHOST", "http://localhost:3000", 200},
		{"evil.example", "", 403}, {"evil.example:8765", "", 403}, {"127.0.0.1.evil.example", "", 403},
		{"", "http://evil.example", 403}, {"", "null", 403}, {"", "file://localhost", 403}, {"", "http://localhost.evil.example", 403},
		{"", "http://127.0.0.1:9", 200}, {"", "http://evil@localhost.evil.example", 403},
	} {
		r := c.request(context.Background(), "POST", strings.NewReader(c.msg("1", "ping", "", "")))
		if x.host != "" {
			r.Host = x.host
		}
		if x.origin != "" {
			r.Header.Set("Origin", x.origin)
		}
		res, err := w.hc.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != x.status {
			t.Errorf("Host %q Origin %q: %s, want %d", x.host, x.origin, res.Status, x.status)
		}
	}
}

func TestBearer_RevokedFailsOnTheNextCall(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	if m := last(t, c.do(c.tool("1", "sophia.echo", `{"text":"x"}`, ""))); m.Error != nil {
		t.Fatal(m.Error)
	}
	w.revoke("alpha")
	for what, cl := range map[string]*client{"revoked": c, "wrong": {w: w, bearer: "gamma"}, "missing": {w: w}} {
		r := cl.do(c.tool("2", "sophia.echo", `{"text":"x"}`, ""))
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 401 || !bytes.Contains(b, []byte("Authentication required. Provide a valid Bearer token.")) {
			t.Errorf("%s: %s %s", what, r.Status, b)
		}
		if h := r.Header.Get("WWW-Authenticate"); !strings.HasPrefix(h, "Bearer") || strings.Contains(h, "resource_metadata") {
			t.Errorf("%s: WWW-Authenticate is %q", what, h)
		}
		q, _ := http.NewRequest("POST", w.http.URL+"/api/v1/tools/sophia.echo", strings.NewReader(`{"text":"x"}`))
		q.Header = cl.request(context.Background(), "POST", nil).Header
		r, err := w.hc.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, _ = io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 401 || !bytes.Contains(b, []byte(`"invalid_or_revoked_bearer"`)) {
			t.Errorf("%s on REST: %s %s", what, r.Status, b)
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/"} {
		r, err := w.hc.Get(w.http.URL + path)
		if err != nil || r.StatusCode != 404 {
			t.Errorf("%s: %v %v", path, r, err)
		}
		r.Body.Close()
	}
}

func TestREST_CallsOneTool(t *testing.T) {
	w := newWorld(t)
	for _, x := range []struct {
		tool, args string
		status     int
		contains   string
	}{
		{"sophia.echo", `{"text":"x"}`, 200, `{"text":"x","_inbox_unread":7}`},
		{"echo", `{"text":"x"}`, 200, `"text":"x"`},
		{"sophia.ehco", `{}`, 404, `Did you mean sophia.echo?`},
		{"sophia.echo", `{"txt":"x"}`, 400, `Did you mean text?`},
		{"sophia.write_thing", `{"text":"x"}`, 403, `"approval_unavailable"`},
		{"sophia.echo", `{`, 400, `"arguments_not_an_object"`},
	} {
		r, _ := http.NewRequest("POST", w.http.URL+"/api/v1/tools/"+x.tool, strings.NewReader(x.args))
		r.Header.Set("Authorization", "Bearer alpha")
		res, err := w.hc.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != x.status || !strings.Contains(string(b), x.contains) || !strings.Contains(string(b), `"_inbox_unread":7`) {
			t.Errorf("%s %s: %s %s", x.tool, x.args, res.Status, b)
		}
	}
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
		w.full = true
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

func TestEnvelope_WhatIsNoRequestIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	for body, want := range map[string]int{
		``:                     mcp.PARSE_ERROR,
		`{`:                    mcp.PARSE_ERROR,
		`{"jsonrpc":"2.0"} {}`: mcp.PARSE_ERROR,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:          mcp.INVALID_REQUEST,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:            mcp.INVALID_REQUEST,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:         mcp.INVALID_REQUEST,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:          mcp.INVALID_REQUEST,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:           mcp.INVALID_REQUEST,
		`{"jsonrpc":"2.0","id":1}`:                            mcp.INVALID_REQUEST,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":1}`: mcp.INVALID_PARAMS,
	} {
		r := c.do(body)
		if m := last(t, r); r.StatusCode != 400 || m.Error == nil || m.Error.Code != want {
			t.Errorf("%s: %s %+v", body, r.Status, m.Error)
		}
	}
	if m := last(t, c.do(c.msg("1", "no/such/method", "", ""))); m.Error == nil || m.Error.Code != mcp.METHOD_NOT_FOUND {
		t.Errorf("unknown method: %+v", m)
	}
	for _, id := range []string{"9007199254740993", `"a\u0000b"`, "-1"} {
		if m := last(t, c.do(c.msg(id, "ping", "", ""))); string(m.ID) != id {
			t.Errorf("the id %s came back as %s", id, m.ID)
		}
	}
	r := c.request(context.Background(), "POST", strings.NewReader(c.msg("1", "ping", "", "")))
	r.Header.Set("Content-Type", "text/plain")
	if res, err := w.hc.Do(r); err != nil || res.StatusCode != 415 {
		t.Errorf("text/plain: %v %v", res, err)
	}
}

func TestStateless_HeadersAndBodyMustAgree(t *testing.T) {
	w := newWorld(t)
	c := w.stateless("alpha")
	ok := c.tool("1", "sophia.echo", `{"text":"x"}`, "")
	old := strings.Replace(ok, "2026-07-28", "2027-01-01", 1)
	for what, x := range map[string]struct {
		header       map[string]string
		body         string
		status, code int
	}{
		"version header differs": {map[string]string{"MCP-Protocol-Version": "2025-11-25"}, ok, 400, mcp.HEADER_MISMATCH},
		"no _meta":               {nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, 400, mcp.INVALID_PARAMS},
		"another method":         {map[string]string{"Mcp-Method": "tools/list"}, ok, 400, mcp.HEADER_MISMATCH},
		"another name":           {map[string]string{"Mcp-Name": "sophia.wait"}, ok, 400, mcp.HEADER_MISMATCH},
		"a version to come":      {map[string]string{"MCP-Protocol-Version": "2027-01-01"}, old, 400, mcp.UNSUPPORTED_PROTOCOL_VERSION},
		"a removed method":       {nil, c.msg("1", "initialize", `"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"x","version":"1"}`, ""), 404, mcp.METHOD_NOT_FOUND},
	} {
		cl := *c
		cl.header = x.header
		r := cl.do(x.body)
		if m := last(t, r); r.StatusCode != x.status || m.Error == nil || m.Error.Code != x.code {
			t.Errorf("%s: %s %+v, want %d %d", what, r.Status, m.Error, x.status, x.code)
		}
	}
	m := last(t, c.do(c.msg("1", "server/discover", "", "")))
	if m.Error != nil || !strings.Contains(string(m.Result), `"2026-07-28"`) || !strings.Contains(string(m.Result), `"resultType":"complete"`) {
		t.Errorf("discover: %s %+v", m.Result, m.Error)
	}
	for _, method := range []string{"GET", "DELETE"} {
		r := c.request(context.Background(), method, nil)
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		if res, err := w.hc.Do(r); err != nil || res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %v %v", method, res, err)
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
func listChanged(c *transport.Config) {
	c.ServerOptions = append(c.ServerOptions, server.WithToolCapabilities(true))
}

func TestClose_EndsStreamsAndLetsCallsFinish(t *testing.T) {
	w := newWorld(t, listChanged)
	c, m := w.legacy("alpha"), w.stateless("alpha")
	stream, err := w.hc.Do(c.request(context.Background(), "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	listen := m.do(m.msg("9", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""))
	defer listen.Body.Close()
	call := make(chan message, 1)
	go func() {
		if r, err := c.doCtx(context.Background(), c.tool("1", "sophia.wait", `{"text":"x"}`, "")); err == nil {
			call <- last(t, r)
		}
	}()
	<-w.began
	closed := make(chan error, 1)
	go func() { closed <- w.tr.Close(context.Background()) }()
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // ends though the call is still under way
		t.Error(err)
	}
	if got := all(t, listen); len(got) != 2 || got[0].Method != "notifications/subscriptions/acknowledged" || string(got[1].ID) != "9" {
		t.Errorf("the subscription got %+v", got)
	}
	r := c.do(c.msg("2", "ping", "", ""))
	r.Body.Close()
	if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("a new request got %s", r.Status)
	}
	close(w.go_)
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if _, s := result(t, <-call); s["text"] != "x" {
		t.Errorf("the call under way got %v", s)
	}
}

func TestClose_CancelsWhatDoesntFinish(t *testing.T) {
	w := newWorld(t)
	c := w.stateless("alpha")
	go func() {
		if r, err := c.doCtx(context.Background(), c.tool("1", "sophia.wait", `{"text":"x"}`, "")); err == nil {
			r.Body.Close()
		}
	}()
	<-w.began
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := w.tr.Close(ctx); err == nil {
		t.Error("close said that all finished")
	}
	if err := <-w.ended; err == nil {
		t.Error("the call was not cancelled")
	}
}

func TestClient_ThatNeverReadsIsGivenUp(t *testing.T) {
	w := newWorld(t, func(c *transport.Config) { c.WriteWait = 50 * time.Millisecond })
	c := w.stateless("alpha")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := c.tool("1", "sophia.flood", `{"text":"x"}`, "1")
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alpha\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: sophia.flood\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := <-w.ended; err == nil {
		t.Error("the call went on for a client that does not read")
	}
}

func TestStreams_AreBoundedPerConnection(t *testing.T) {
	w := newWorld(t, listChanged, func(c *transport.Config) { c.MaxStreams = 2 })
	open := func(bearer string) *http.Response {
		m := w.stateless(bearer)
		return m.do(m.msg("9", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""))
	}
	var statuses []int
	for _, bearer := range []string{"alpha", "alpha", "alpha", "beta"} {
		r := open(bearer)
		defer r.Body.Close()
		statuses = append(statuses, r.StatusCode)
	}
	if !slices.Equal(statuses, []int{200, 200, 429, 200}) {
		t.Errorf("got %v", statuses)
	}
}
