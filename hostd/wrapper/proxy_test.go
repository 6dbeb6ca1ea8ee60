package wrapper

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sophia/messages/problem"
	"sophia/messages/secret"
)

const patience = 20 * time.Second

// endpoint is a daemon that does what a test says.
type endpoint struct {
	t      *testing.T
	addr   string
	server *http.Server
	handle func(w http.ResponseWriter, r *http.Request, m map[string]any)

	mu   sync.Mutex
	seen []string // "POST tools/call s1", in the order of arrival
}

func newEndpoint(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, m map[string]any)) *endpoint {
	t.Helper()
	e := &endpoint{t: t, handle: handle, addr: "127.0.0.1:0"}
	e.start()
	t.Cleanup(e.stop)
	return e
}

func (e *endpoint) start() {
	e.t.Helper()
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.addr = l.Addr().String()
	e.server = &http.Server{Handler: e}
	go e.server.Serve(l)
}

func (e *endpoint) stop() { _ = e.server.Close() }

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != "Bearer sophia_test_bearer_0123456789" {
		e.t.Errorf("Authorization %q", got)
	}
	body, _ := io.ReadAll(r.Body)
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	method, _ := m["method"].(string)
	e.mu.Lock()
	e.seen = append(e.seen, strings.TrimSpace(r.Method+" "+method+" "+r.Header.Get(headerSession)))
	e.mu.Unlock()
	e.handle(w, r, m)
}

func (e *endpoint) requests() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.seen, ", ")
}

func answer(w http.ResponseWriter, m map[string]any, result string) {
	w.Header().Set("Content-Type", "application/json")
	id, _ := json.Marshal(m["id"])
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func sse(w http.ResponseWriter, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, m := range messages {
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", m)
	}
	w.(http.Flusher).Flush()
}

// legacy answers what a session needs, and leaves the rest to next.
func legacy(session func() string, next func(w http.ResponseWriter, r *http.Request, m map[string]any)) func(w http.ResponseWriter, r *http.Request, m map[string]any) {
	return func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch {
		case m["method"] == "initialize":
			w.Header().Set(headerSession, session())
			answer(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodDelete, m["id"] == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			next(w, r, m)
		}
	}
}

func s1() string { return "s1" }

// client drives a proxy over pipes.
type client struct {
	t    *testing.T
	in   *io.PipeWriter
	out  chan string
	done chan error
	cred *Credential
}

func connect(t *testing.T, e *endpoint, o Options) *client {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		e.stop() // with its own goroutines
		goleak.VerifyNone(t, before)
	})
	bearer, err := secret.New([]byte("sophia_test_bearer_0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, out: make(chan string, 1000), done: make(chan error, 1)}
	c.cred = &Credential{URL: "http://" + e.addr + "/mcp", Bearer: bearer}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o.In, o.Out, c.in = inR, outW, inW
	p, err := New(c.cred, o)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(outR)
		lines.Buffer(nil, maxMessage)
		for lines.Scan() {
			c.out <- lines.Text()
		}
		close(c.out)
	}()
	go func() {
		err := p.Run(context.Background())
		outW.Close()
		inR.Close()
		c.done <- err
	}()
	t.Cleanup(func() {
		c.in.Close()
		for range c.out {
		}
		c.cred.Close()
	})
	return c
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) hear() string {
	c.t.Helper()
	select {
	case l, ok := <-c.out:
		if !ok {
			c.t.Fatal("the proxy has ended")
		}
		return l
	case <-time.After(patience):
		c.t.Fatal("the proxy says nothing")
	}
	return ""
}

func (c *client) ended() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(patience):
		c.t.Fatal("the proxy goes on")
	}
	return nil
}

const (
	hello       = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func (c *client) greet() {
	c.t.Helper()
	c.say(hello)
	if got := c.hear(); !strings.Contains(got, "2025-11-25") {
		c.t.Fatal(got)
	}
	c.say(initialized)
}

func expect(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%s\ndoes not contain %s", got, p)
		}
	}
}

func TestProxy_SessionEra_ProgressComesBeforeItsResult(t *testing.T) {
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if v := r.Header.Get(headerVersion); v != "2025-11-25" {
			t.Errorf("version header %q", v)
		}
		sse(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`,
			"{\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\",\"params\":{\"progressToken\":7,\"progress\":2}}",
			`{"jsonrpc":"2.0","id":"a\"1","result":{"n":3}}`)
	}))
	c := connect(t, e, Options{})
	c.greet()
	c.say(`{"jsonrpc":"2.0","id":"a\"1","method":"tools/call","params":{"name":"x","_meta":{"progressToken":7}}}`)
	expect(t, c.hear(), `"progress":1`)
	expect(t, c.hear(), `"progress":2`)
	expect(t, c.hear(), `"n":3`)
	c.in.Close()
	if err := c.ended(); err != nil {
		t.Error(err)
	}
	expect(t, e.requests(), "POST initialize, POST notifications/initialized s1", "POST tools/call s1", "DELETE  s1")
}

func TestProxy_StatelessEra_HeadersOfItsOwn(t *testing.T) {
	var got http.Header
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		got = r.Header.Clone()
		answer(w, m, `{}`)
	})
	c := connect(t, e, Options{})
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	expect(t, c.hear(), `"id":1,"result":{}`)
	for k, v := range map[string]string{headerVersion: "2026-07-28", headerMethod: "tools/call", headerName: "=?base64?Z3LDtsOfZQ==?=", headerSession: ""} {
		if got.Get(k) != v {
			t.Errorf("%s is %q, want %q", k, got.Get(k), v)
		}
	}
}

func TestProxy_CancellingClosesTheCallAndItIsNotAnswered(t *testing.T) {
	t.Run("session era", func(t *testing.T) { cancelling(t, "") })
	t.Run("stateless era", func(t *testing.T) {
		cancelling(t, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
	})
}

func cancelling(t *testing.T, era string) {
	started, stopped := make(chan struct{}), make(chan struct{})
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if m["method"] == "tools/list" {
			answer(w, m, `{"tools":[]}`)
			return
		}
		sse(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		close(started)
		<-r.Context().Done()
		close(stopped)
	}))
	c := connect(t, e, Options{})
	if era == "" {
		c.greet()
	}
	c.say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow"` + era + `}}`)
	<-started
	expect(t, c.hear(), "notifications/progress")
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5` + era + `}}`)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the daemon's call goes on")
	}
	c.say(`{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{}}`)
	expect(t, c.hear(), `"id":6`) // and nothing for 5
	if told := strings.Contains(e.requests(), "notifications/cancelled"); told != (era == "") {
		t.Errorf("era %q: the daemon was told by message: %v", era, told)
	}
}

func TestProxy_LeaseOverAnswersAndEnds(t *testing.T) {
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	c := connect(t, e, Options{})
	c.greet()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	expect(t, c.hear(), `"id":1`, `"error"`, `"code":"lease_over"`)
	if err := c.ended(); problem.CodeOf(err) != "lease_over" {
		t.Error(err)
	}
}

func TestProxy_EndsWithTheRelaysWord(t *testing.T) {
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) { <-r.Context().Done() }))
	over := make(chan error, 1)
	t.Cleanup(func() { close(over) })
	bearer, err := secret.New([]byte("sophia_test_bearer_0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	defer bearer.Zero()
	in, feed := io.Pipe()
	defer feed.Close()
	p, err := New(&Credential{URL: "http://" + e.addr, Bearer: bearer, Over: func() error { return <-over }}, Options{In: in, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(context.Background()) }()
	over <- problem.New("lease_over", "the lease is over")
	select {
	case err := <-done:
		if problem.CodeOf(err) != "lease_over" {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the wrapper outlives its lease")
	}
}

func TestProxy_SurvivesADaemonThatIsAwayForAMoment(t *testing.T) {
	session := s1
	e := newEndpoint(t, nil)
	e.handle = legacy(func() string { return session() }, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if r.Header.Get(headerSession) != session() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w, m, `{"tools":[]}`)
	})
	c := connect(t, e, Options{})
	c.greet()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	expect(t, c.hear(), `"id":1,"result"`)
	e.stop()
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`) // while it is away
	session = func() string { return "s2" }                                       // and it comes back without the session
	e.start()
	expect(t, c.hear(), `"id":2,"result"`)
	expect(t, e.requests(), "POST tools/list s1", "POST initialize, POST notifications/initialized s2", "POST tools/call s2")
	if n := strings.Count(e.requests(), "POST tools/call s2"); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
}

func TestProxy_ADaemonThatStaysAway(t *testing.T) {
	e := newEndpoint(t, legacy(s1, nil))
	c := connect(t, e, Options{Hiccup: time.Millisecond})
	c.greet()
	e.stop()
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)
	expect(t, c.hear(), `"id":2`, `"code":"daemon_unreachable"`, "sophia up")
}

func TestProxy_ALostAnswerIsNotAskedForTwice(t *testing.T) {
	lists := 0
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if m["method"] == "tools/list" {
			if lists++; lists > 1 {
				answer(w, m, `{"tools":[]}`)
				return
			}
		}
		sse(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		panic(http.ErrAbortHandler)
	}))
	c := connect(t, e, Options{})
	c.greet()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}`)
	expect(t, c.hear(), "progress")
	expect(t, c.hear(), `"id":1`, `"code":"daemon_connection_lost"`, "may or may not")
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`) // reading again is harmless
	expect(t, c.hear(), "progress")
	expect(t, c.hear(), `"id":2,"result"`)
	if n := strings.Count(e.requests(), "tools/call"); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
}

func TestProxy_DaemonAsksAndTellsByItself(t *testing.T) {
	answered := make(chan map[string]any, 1)
	e := newEndpoint(t, nil)
	base := legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if m["method"] == nil {
			answered <- m
			w.WriteHeader(http.StatusAccepted)
			return
		}
		sse(w, `{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{}}`)
		sse(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"heard":%q}}`, (<-answered)["id"]))
	})
	e.handle = func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		if r.Method == http.MethodGet {
			sse(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			<-r.Context().Done()
			return
		}
		base(w, r, m)
	}
	c := connect(t, e, Options{})
	c.greet()
	expect(t, c.hear(), "list_changed")
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`)
	expect(t, c.hear(), "elicitation/create")
	c.say(`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`)
	expect(t, c.hear(), `"heard":"q1"`)
}

func TestProxy_ManyCallsAtOnceEachGetTheirOwnAnswer(t *testing.T) {
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		answer(w, m, fmt.Sprintf(`{"for":%v}`, m["id"]))
	}))
	c := connect(t, e, Options{})
	c.greet()
	const n = 100
	go func() {
		for i := 1; i <= n; i++ {
			fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`+"\n", i)
		}
	}()
	got := map[int]bool{}
	for range n {
		var v struct {
			ID     int
			Result struct{ For int }
		}
		if err := json.Unmarshal([]byte(c.hear()), &v); err != nil || v.ID != v.Result.For || got[v.ID] {
			t.Fatalf("%+v %v", v, err)
		}
		got[v.ID] = true
	}
}

func TestProxy_RefusesWhatItCantPassOn(t *testing.T) {
	block := make(chan struct{})
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		switch m["method"] {
		case "big":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			io.WriteString(w, `{"code":"body_too_large","message":"over 4 MiB"}`)
		case "rpc":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
		case "html":
			io.WriteString(w, "<html>")
		default:
			<-block
			answer(w, m, `{}`)
		}
	}))
	c := connect(t, e, Options{MaxCalls: 1})
	c.greet()
	c.say(`{"no":"jsonrpc"}`)
	expect(t, c.hear(), `"id":null`, "-32700", "message_malformed")
	c.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	expect(t, c.hear(), "message_malformed")
	for method, want := range map[string]string{"big": "body_too_large", "rpc": "-32600", "html": "daemon_refused"} {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q}`, method, method))
		expect(t, c.hear(), fmt.Sprintf(`"id":%q`, method), want)
		if method == "rpc" {
			continue
		}
	}
}

func TestProxy_BoundsCallsUnderWay(t *testing.T) {
	block := make(chan struct{})
	e := newEndpoint(t, legacy(s1, func(w http.ResponseWriter, r *http.Request, m map[string]any) {
		<-block
		answer(w, m, `{}`)
	}))
	c := connect(t, e, Options{MaxCalls: 1})
	c.greet()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	expect(t, c.hear(), `"id":1`, "request_id_in_use")
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`)
	expect(t, c.hear(), `"id":2`, "too_many_calls")
	close(block)
	expect(t, c.hear(), `"id":1,"result"`)
}

func TestProxy_BearerStaysOnThisMachine(t *testing.T) {
	b, err := secret.New([]byte("sophia_x"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Zero()
	for _, url := range []string{"http://example.com/mcp", "https://127.0.0.1/mcp", "http://10.0.0.1:8765/mcp", "http://u:p@127.0.0.1/", "127.0.0.1:8765", "http://127.0.0.1.example.com/"} {
		if _, err := newDaemon(url, b); problem.CodeOf(err) != "url_not_loopback" {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:8765/mcp", "http://[::1]:8765/mcp", "http://localhost:1/mcp"} {
		if _, err := newDaemon(url, b); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
