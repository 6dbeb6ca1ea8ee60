package transport_test

import (
	"bufio"
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"sophia/mcp/transport"
)

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
		runtime.Gosched()
	}
}

// A subscription ends with its bearer.
func TestSubscription_EndsWithItsBearer(t *testing.T) {
	w := newWorld(t, listChanged, func(c *transport.Config) { c.KeepAlive = 5 * time.Millisecond })
	m := w.stateless("alpha")
	listen := m.do(m.msg("9", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""))
	defer listen.Body.Close()
	lines := bufio.NewReader(listen.Body)
	for { // it is open, and gives signs of life
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			break
		}
	}
	w.revoke("alpha")
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the subscription of a revoked bearer ended with %v", err)
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
