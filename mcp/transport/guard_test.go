package transport_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"sophia/mcp/transport"
	"sophia/messages/problem"
)

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

// What is not the caller's doing is not called so.
func TestAdmission_SaysWhoseTroubleItIs(t *testing.T) {
	w := newWorld(t)
	c := w.legacy("alpha")
	for want, refusal := range map[int]error{
		http.StatusTooManyRequests:    errFull,
		http.StatusServiceUnavailable: problem.New("connections_down", "the daemon is starting or stopping").WithHint("Try again in a moment."),
	} {
		w.mu.Lock()
		w.refusal = refusal
		w.mu.Unlock()
		r, err := http.NewRequest("POST", w.http.URL+"/api/v1/tools/sophia.echo", strings.NewReader(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer alpha")
		got, err := w.hc.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || got.StatusCode != want || !bytes.Contains(body, []byte(problem.CodeOf(refusal))) {
			t.Errorf("REST: %s %s, want %d", got.Status, body, want)
		}
		listed := c.do(c.msg("1", "tools/list", "", ""))
		listed.Body.Close()
		if listed.StatusCode != want {
			t.Errorf("MCP: %s, want %d", listed.Status, want)
		}
	}
}
