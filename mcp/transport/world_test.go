package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/goleak"

	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/mcp/transport"
	"sophia/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a transport behind a real HTTP server, with a few tools.
type world struct {
	t     *testing.T
	tr    *transport.Transport
	http  *httptest.Server
	hc    *http.Client
	began chan string   // one message per call of wait
	go_   chan struct{} // lets wait go on
	ended chan error    // how wait ended

	mu      sync.Mutex
	bearers map[[32]byte]messages.Authority
	refusal error // of Enter
}

func (w *world) ByBearer(_ context.Context, sum [sha256.Size]byte) (messages.Authority, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.bearers[sum]
	return a, ok, nil
}

func (w *world) mint(bearer string, a messages.Authority) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bearers[sha256.Sum256([]byte(bearer))] = a
}

func (w *world) revoke(bearer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.bearers, sha256.Sum256([]byte(bearer)))
}

func (w *world) Enter(context.Context, messages.Authority) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refusal != nil {
		return nil, w.refusal
	}
	return func() {}, nil
}

func (w *world) Unread(context.Context, messages.Authority) (int, error) { return 7, nil }

type echoIn struct {
	Text  string `json:"text" jsonschema:"what to say"`
	Steps int    `json:"steps,omitempty" jsonschema:"how often to report progress"`
}
type echoOut struct {
	Text string `json:"text"`
}

func (w *world) tools() []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "echo", Group: registry.System, Summary: "Echo", Description: "Says it back.", Scope: registry.Unscoped, Core: true},
			func(_ context.Context, c *registry.Call, in echoIn) (echoOut, error) {
				for i := range in.Steps {
					c.Progress(float64(i), float64(in.Steps), in.Text)
				}
				return echoOut{in.Text}, nil
			}),
		registry.Define(registry.Spec{Name: "wait", Group: registry.System, Summary: "Wait", Description: "Waits until it is told to go on.", Scope: registry.Unscoped},
			func(ctx context.Context, c *registry.Call, in echoIn) (echoOut, error) {
				w.began <- in.Text
				select {
				case <-ctx.Done():
					w.ended <- ctx.Err()
					return echoOut{}, ctx.Err()
				case <-w.go_:
					w.ended <- nil
					return echoOut{in.Text}, nil
				}
			}),
		registry.Define(registry.Spec{Name: "flood", Group: registry.System, Summary: "Flood", Description: "Reports until nobody listens.", Scope: registry.Unscoped},
			func(ctx context.Context, c *registry.Call, in echoIn) (echoOut, error) {
				for n := 0.0; ctx.Err() == nil; n++ {
					c.Progress(n, 0, strings.Repeat("x", 64<<10))
				}
				w.ended <- ctx.Err()
				return echoOut{}, ctx.Err()
			}),
		registry.Define(registry.Spec{Name: "list_things", Group: registry.ReadMeta, Summary: "List", Description: "Lists things.", Compact: []string{"text"}},
			func(context.Context, *registry.Call, struct{}) (registry.Page[echoOut], error) {
				return registry.Page[echoOut]{Items: []echoOut{{"a"}}, Total: 1}, nil
			}),
		registry.Define(registry.Spec{Name: "write_thing", Group: registry.MutateKnowledge, Summary: "Write", Description: "Writes a thing.",
			Effects: registry.Effects{Writes: []string{"things"}, Elevated: true}},
			func(context.Context, *registry.Call, echoIn) (echoOut, error) { return echoOut{}, nil }),
	}
}

func authority(id string, p messages.Profile) messages.Authority {
	return messages.Authority{Connection: id, Name: id, Profile: p, Surface: messages.SurfaceFull, Scope: []string{"*"}}
}

func newWorld(t *testing.T, change ...func(*transport.Config)) *world {
	t.Helper()
	w := &world{t: t, began: make(chan string, 100), go_: make(chan struct{}), ended: make(chan error, 100), bearers: map[[32]byte]messages.Authority{}}
	w.mint("alpha", authority("conn-a", messages.Full))
	w.mint("beta", authority("conn-b", messages.Full))
	reg, err := registry.New(w.tools()...)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	d, err := dispatch.New(dispatch.Config{Registry: reg, Inbox: w, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	c := transport.Config{Dispatcher: d, Authorities: w, Admission: w, MaxBody: 64 << 10, Log: quiet, Version: "1.2.3"}
	for _, f := range change {
		f(&c)
	}
	if w.tr, err = transport.New(c); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(w.tr)
	bodies := &closer{inner: w.http.Client().Transport}
	w.hc = &http.Client{Transport: bodies}
	t.Cleanup(func() {
		bodies.closeAll()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = w.tr.Close(ctx)
		w.http.Close()
		w.http.Client().CloseIdleConnections()
	})
	return w
}

// closer closes the bodies that a test left open.
type closer struct {
	inner http.RoundTripper
	mu    sync.Mutex
	open  []io.Closer
}

func (c *closer) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.inner.RoundTrip(r)
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, res.Body)
		c.mu.Unlock()
	}
	return res, err
}

func (c *closer) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.open {
		_ = b.Close()
	}
}

// client is one MCP client.
type client struct {
	w       *world
	bearer  string
	session string
	modern  bool
	header  map[string]string
}

func (w *world) legacy(bearer string) *client {
	w.t.Helper()
	c := &client{w: w, bearer: bearer}
	r := c.do(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	defer r.Body.Close()
	if c.session = r.Header.Get("Mcp-Session-Id"); r.StatusCode != 200 || c.session == "" {
		b, _ := io.ReadAll(r.Body)
		w.t.Fatalf("initialize: %s %s", r.Status, b)
	}
	return c
}

func (w *world) stateless(bearer string) *client { return &client{w: w, bearer: bearer, modern: true} }

func (c *client) request(ctx context.Context, method string, body io.Reader) *http.Request {
	c.w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.w.http.URL+"/mcp", body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	return r
}

func (c *client) doCtx(ctx context.Context, body string) (*http.Response, error) {
	r := c.request(ctx, "POST", strings.NewReader(body))
	if c.modern {
		var m struct {
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal([]byte(body), &m)
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", m.Method)
		if m.Params.Name != "" {
			r.Header.Set("Mcp-Name", m.Params.Name)
		}
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
	}
	return c.w.hc.Do(r)
}

func (c *client) do(body string) *http.Response {
	c.w.t.Helper()
	r, err := c.doCtx(context.Background(), body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return r
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":%TOKEN%}`

// msg is a request; token "" asks for no progress.
func (c *client) msg(id, method, params, token string) string {
	m := ""
	switch {
	case c.modern && token != "":
		m = strings.Replace(meta, "%TOKEN%", token, 1)
	case c.modern:
		m = strings.Replace(meta, `,"progressToken":%TOKEN%`, "", 1)
	case token != "":
		m = `"_meta":{"progressToken":` + token + `}`
	}
	if params != "" && m != "" {
		m += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + m + params + `}}`
}

func (c *client) tool(id, name, args, token string) string {
	return c.msg(id, "tools/call", `"name":"`+name+`","arguments":`+args, token)
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token   json.RawMessage `json:"progressToken"`
		Message string          `json:"message"`
		N       int             `json:"n"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// all reads an answer to its end: a single JSON message or a stream of them.
func all(t *testing.T, r *http.Response) []message {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return []message{decode(t, b)}
	}
	var out []message
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			out = append(out, decode(t, []byte(data)))
		}
	}
	return out
}

func decode(t *testing.T, b []byte) message {
	t.Helper()
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return m
}

func last(t *testing.T, r *http.Response) message {
	t.Helper()
	m := all(t, r)
	if len(m) == 0 {
		t.Fatalf("no message: %s", r.Status)
	}
	return m[len(m)-1]
}

type toolResult struct {
	IsError           bool            `json:"isError"`
	ResultType        string          `json:"resultType"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Text string `json:"text"`
	} `json:"content"`
}

func result(t *testing.T, m message) (toolResult, map[string]any) {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(r.StructuredContent, &s); err != nil {
		t.Fatalf("%s: %v", m.Result, err)
	}
	return r, s
}

// fixture adds a tool that isn't Sophia's, as the conformance program does.
func (w *world) fixture(name string, h server.ToolHandlerFunc) {
	w.tr.Server().AddTool(mcp.NewTool(name), h)
}

func eras(t *testing.T, f func(t *testing.T, w *world, open func(bearer string) *client), change ...func(*transport.Config)) {
	t.Run("2025-11-25", func(t *testing.T) { w := newWorld(t, change...); f(t, w, w.legacy) })
	t.Run("2026-07-28", func(t *testing.T) { w := newWorld(t, change...); f(t, w, w.stateless) })
}
