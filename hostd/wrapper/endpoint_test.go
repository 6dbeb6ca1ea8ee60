package wrapper_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/mcp/transport"
	"sophia/messages"
	"sophia/testkit/programs"
)

// surface is the real MCP endpoint with two tools.
type surface struct {
	url    string
	ended  chan error
	away   func() // ends it, and every connection
	mu     sync.Mutex
	bearer string
}

type sayIn struct {
	Text string `json:"text"`
}
type sayOut struct {
	Text string `json:"text"`
}

func (s *surface) ByBearer(_ context.Context, sum [sha256.Size]byte) (messages.Authority, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := messages.Authority{Connection: "conn-1", Name: "t", Profile: messages.Full, Surface: messages.SurfaceFull, Scope: []string{"*"}}
	return a, s.bearer != "" && sum == sha256.Sum256([]byte(s.bearer)), nil
}

func (s *surface) Enter(context.Context, messages.Authority) (func(), error) { return func() {}, nil }
func (s *surface) Unread(context.Context, messages.Authority) (int, error)   { return 0, nil }

func startSurface(t *testing.T, bearer string) *surface {
	t.Helper()
	s := &surface{bearer: bearer, ended: make(chan error, 1)}
	reg, err := registry.New(
		registry.Define(registry.Spec{Name: "echo", Group: registry.System, Summary: "Echo", Description: "Says it back.", Scope: registry.Unscoped},
			func(_ context.Context, c *registry.Call, in sayIn) (sayOut, error) {
				for i := range 20 {
					c.Progress(float64(i), 20, in.Text)
				}
				return sayOut(in), nil
			}),
		registry.Define(registry.Spec{Name: "wait", Group: registry.System, Summary: "Wait", Description: "Waits for its cancellation.", Scope: registry.Unscoped},
			func(ctx context.Context, c *registry.Call, in sayIn) (sayOut, error) {
				c.Progress(0, 0, "waiting")
				<-ctx.Done()
				s.ended <- ctx.Err()
				return sayOut{}, ctx.Err()
			}),
	)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	d, err := dispatch.New(dispatch.Config{Registry: reg, Inbox: s, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transport.New(transport.Config{Dispatcher: d, Authorities: s, Admission: s, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(tr)
	s.url = server.URL + "/mcp"
	s.away = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = tr.Close(ctx)
		server.Close()
	})
	t.Cleanup(s.away)
	return s
}

func (s *surface) wrap(t *testing.T) *session {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bearer")
	if err := os.WriteFile(file, []byte("sophia_minted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, programs.Build(t, "sophia-wrapper"), "--url", s.url, "--bearer-file", file)
}

func (s *session) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) hear() string {
	s.t.Helper()
	if !s.out.Scan() {
		_ = s.cmd.Wait()
		s.t.Fatalf("the wrapper ended: %s", s.diag.String())
	}
	return s.out.Text()
}

// Through the real transport, in both eras: all progress before the result,
// a cancellation that reaches the tool, and the end when the bearer is revoked.
func TestWrapper_TheRealEndpointInBothEras(t *testing.T) {
	for name, meta := range map[string]string{
		"session era":   `"progressToken":"p"`,
		"stateless era": `"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			sf := startSurface(t, "sophia_minted")
			s := sf.wrap(t)
			if name == "session era" {
				if got := s.call("initialize", initParams); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
					t.Fatal(got)
				}
				s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			} else if got := s.call("server/discover", `{"_meta":{`+meta+`}}`); !strings.Contains(got, "2026-07-28") {
				t.Fatal(got)
			}
			s.say(`{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"sophia.echo","arguments":{"text":"hé"},"_meta":{` + meta + `}}}`)
			for i := range 20 {
				if got := s.hear(); !strings.Contains(got, "notifications/progress") || !strings.Contains(got, fmt.Sprintf(`"progress":%d`, i)) {
					t.Fatalf("%d: %s", i, got)
				}
			}
			if got := s.hear(); !strings.Contains(got, `"id":"e"`) || !strings.Contains(got, `"text":"hé"`) {
				t.Errorf("result: %s", got)
			}
			s.say(`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"sophia.wait","arguments":{"text":""},"_meta":{` + meta + `}}}`)
			if got := s.hear(); !strings.Contains(got, "waiting") {
				t.Fatal(got)
			}
			s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","_meta":{` + meta + `}}}`)
			select {
			case <-sf.ended:
			case <-time.After(patience):
				t.Fatal("the cancellation did not reach the tool")
			}
			sf.mu.Lock()
			sf.bearer = "" // revoked
			sf.mu.Unlock()
			s.say(`{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{` + meta + `}}}`)
			if got := s.hear(); !strings.Contains(got, `"id":"x"`) || !strings.Contains(got, "lease_over") {
				t.Errorf("after the revocation: %s", got)
			}
			if code, diag := s.end(); code != 0 || !strings.Contains(diag, "lease_over") {
				t.Errorf("it ends with %d: %s", code, diag)
			}
		})
	}
}

func TestWrapper_WrongBearerServesNothing(t *testing.T) {
	s := startSurface(t, "another").wrap(t)
	s.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + initParams + `}`)
	if s.out.Scan() {
		t.Errorf("it answered %s", s.out.Text())
	}
	if code, diag := s.end(); code != 3 || !strings.Contains(diag, "Authentication required. Provide a valid Bearer token.") {
		t.Errorf("it ends with %d: %s", code, diag)
	}
}

func TestWrapper_Usage(t *testing.T) {
	program := programs.Build(t, "sophia-wrapper")
	for _, args := range [][]string{nil, {"--launch", "lp-1"}, {"--launch", "lp-1", "--socket", "/s", "--url", "http://127.0.0.1"}, {"--bearer", "x"}, {"--launch", "a", "--socket", "b", "c"}} {
		if code, diag := run(t, program, args...).end(); code != 2 || diag == "" {
			t.Errorf("%q ends with %d: %s", args, code, diag)
		}
	}
	if code, diag := run(t, program, "--launch", "lp-1", "--socket", "/nonexistent/s").end(); code != 4 || !strings.Contains(diag, "channel_unreachable") {
		t.Errorf("no relay: %d %s", code, diag)
	}
}
