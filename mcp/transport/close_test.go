package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"sophia/mcp/transport"
)

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
