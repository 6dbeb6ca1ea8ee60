package modelapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script is what the model does.
type Script struct {
	Calls []Call
	Final string // what it says at the end; "" is "Done."
}

// Call is one tool call. Tool is the tool's own name in any spelling
// (sophia.orient, sophia_orient); the namespace or prefix that the harness gave
// it is found in the tools that the request offers.
type Call struct {
	Tool      string
	Arguments string // JSON object; "" is {}
}

// Request is one recorded HTTP request. Body is nil unless it was JSON.
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   json.RawMessage
	At     time.Time
}

// ToolOutput is a tool's result as the harness gave it to the model.
type ToolOutput struct {
	CallID string
	Text   string          // what the model reads
	Raw    json.RawMessage // the whole item
}

// Server is a running mock. Close it when done.
type Server struct {
	URL string // http://127.0.0.1:PORT

	script   Script
	http     *http.Server
	served   chan struct{}
	mu       sync.Mutex
	requests []Request
	outputs  []ToolOutput
	seen     map[string]bool
	calls    int           // made so far, in all sessions
	missing  error         // a scripted tool was not offered
	changed  chan struct{} // closed and replaced at each change
}

// Start runs a mock that ends with the test.
func Start(tb testing.TB, script Script) *Server {
	tb.Helper()
	s, err := Run(context.Background(), script)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("modelapi: %v", err)
		}
	})
	return s
}

// Run listens on a free loopback port until ctx ends or Close is called.
func Run(ctx context.Context, script Script) (*Server, error) {
	if script.Final == "" {
		script.Final = "Done."
	}
	for i, c := range script.Calls {
		if c.Arguments == "" {
			script.Calls[i].Arguments = "{}"
		} else if !json.Valid([]byte(c.Arguments)) {
			return nil, fmt.Errorf("modelapi: arguments of %s are not JSON", c.Tool)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), script: script,
		served: make(chan struct{}), seen: map[string]bool{}, changed: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", s.record(s.responses))
	mux.HandleFunc("POST /v1/messages", s.record(s.messages))
	mux.HandleFunc("GET /v1/models", s.record(models))
	mux.HandleFunc("/", s.record(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		reply(w, http.StatusNotFound, object{"error": object{"type": "not_found", "message": "not part of this mock"}})
	}))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l)
	}()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// Close stops the server at once and waits until it has stopped.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.served
	return err
}

// Requests are all requests so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ToolOutputs are the results that reached the model so far.
func (s *Server) ToolOutputs() []ToolOutput {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ToolOutput(nil), s.outputs...)
}

// ErrNotOffered is returned by WaitToolOutput when the harness did not offer
// the scripted tool to the model.
var ErrNotOffered = errors.New("modelapi: the scripted tool was not offered")

// WaitToolOutput waits for the first scripted call's result.
func (s *Server) WaitToolOutput(ctx context.Context) (ToolOutput, error) {
	out, err := s.WaitToolOutputs(ctx, 1)
	if err != nil {
		return ToolOutput{}, err
	}
	return out[0], nil
}

// WaitToolOutputs waits for the first n results.
func (s *Server) WaitToolOutputs(ctx context.Context, n int) ([]ToolOutput, error) {
	for {
		s.mu.Lock()
		out, missing, changed, asked := s.outputs, s.missing, s.changed, len(s.requests)
		s.mu.Unlock()
		switch {
		case len(out) >= n:
			return append([]ToolOutput(nil), out[:n]...), nil
		case missing != nil:
			return nil, missing
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("modelapi: %d of %d tool results after %d requests: %w", len(out), n, asked, ctx.Err())
		}
	}
}

// maxBody bounds a recorded request; harness requests are well below it.
const maxBody = 32 << 20

func (s *Server) record(next func(http.ResponseWriter, *http.Request, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			reply(w, http.StatusRequestEntityTooLarge, object{"error": object{"message": err.Error()}})
			return
		}
		rec := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), At: time.Now()}
		if json.Valid(body) {
			rec.Body = body
		}
		s.change(func() { s.requests = append(s.requests, rec) })
		if rec.Body == nil && r.Method == http.MethodPost {
			reply(w, http.StatusUnsupportedMediaType, object{"error": object{"message": "plain JSON only"}})
			return
		}
		next(w, r, body)
	}
}

func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// turn takes note of the results that a request carries and says which call is
// next, or that it is time for the final text.
//
// Claude Code asks its model before its servers are connected, and offers a
// tool to wait for them: like a model, the mock calls that first.
func (s *Server) turn(all []ToolOutput, offered []offer) (Call, offer, bool) {
	results := slices.DeleteFunc(slices.Clone(all), func(r ToolOutput) bool { return strings.Contains(r.CallID, waitTool) })
	s.change(func() {
		for _, r := range results {
			if !s.seen[r.CallID] {
				s.seen[r.CallID] = true
				s.outputs = append(s.outputs, r)
			}
		}
	})
	if len(offered) == 0 || len(results) >= len(s.script.Calls) {
		return Call{}, offer{}, false
	}
	call := s.script.Calls[len(results)]
	for _, o := range offered {
		if o.is(call.Tool) {
			return call, o, true
		}
	}
	for _, o := range offered {
		if o.name == waitTool && len(all)-len(results) < maxWaits {
			return Call{Tool: waitTool, Arguments: "{}"}, o, true
		}
	}
	names := make([]string, len(offered))
	for i, o := range offered {
		names[i] = o.namespace + "." + o.name
	}
	s.change(func() {
		s.missing = fmt.Errorf("%w: %s; offered: %s", ErrNotOffered, call.Tool, strings.Join(names, ", "))
	})
	return Call{}, offer{}, false
}

// waitTool is Claude Code's, and maxWaits how often a session calls it.
const (
	waitTool = "WaitForMcpServers"
	maxWaits = 3
)

// callID is a call's identifier, its own among all sessions.
func (s *Server) callID(prefix, tool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return fmt.Sprintf("%s_%s_%d", prefix, tool, s.calls)
}

// offer is a tool that a request offers to the model.
type offer struct{ namespace, name string }

func (o offer) is(tool string) bool {
	want := strings.ReplaceAll(tool, ".", "_")
	have := strings.ReplaceAll(o.name, ".", "_")
	return have == want || strings.HasSuffix(have, "__"+want)
}

type object = map[string]any

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func models(w http.ResponseWriter, _ *http.Request, _ []byte) {
	reply(w, http.StatusOK, object{"object": "list", "data": []any{object{"id": "mock-model", "object": "model"}}, "models": []any{}})
}

// event writes one server-sent event and flushes it.
func event(w http.ResponseWriter, name string, v any) {
	b, _ := json.Marshal(v)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, b)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
