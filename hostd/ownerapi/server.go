package ownerapi

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"sophia/actors/approvals"
	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// Config is what a Server needs.
type Config struct {
	Owner    ed25519.PublicKey
	Services Services
	Presence Presence // who may answer approvals; nil: nobody
	// Login says why a terminal is none of the owner's logins; hostd/login.Checker.Check.
	// nil: which one is theirs is not known.
	Login   func(ctx context.Context, t peer.Terminal) error
	Bearers string // the folder of bearer files
	MCP     func() string
	Log     *slog.Logger // nil: none
}

// Server serves the owner API. Make one with New.
type Server struct {
	Config
	verifier *verifier
	mux      *http.ServeMux
	http     *http.Server

	mu     sync.Mutex
	trays  map[net.Conn]struct{} // hijacked, so http.Server doesn't know them
	closed bool
	wg     sync.WaitGroup
}

// New makes a server; it listens nowhere yet.
func New(c Config) (*Server, error) {
	if len(c.Owner) != ed25519.PublicKeySize {
		return nil, errors.New("ownerapi: no owner key")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	v, err := newVerifier(c.Owner)
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, verifier: v, mux: http.NewServeMux(), trays: map[net.Conn]struct{}{}}
	s.routes()
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       withConn,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}
	return s, nil
}

// ServeHTTP lets the daemon's loopback listener serve the same paths, below
// Root. Trays need the unix socket.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set(InstanceHeader, s.verifier.instance)
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		s.fail(w, r, problem.New("browser_refused", "the owner API is not for browsers").WithHint("Use the sophia command."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if p := s.verifier.check(r); p != nil {
		s.fail(w, r, p)
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(approvals.AtTerminal(r.Context(), func() string { return s.terminal(r.Context()) })))
}

// terminal names the terminal of the owner's logins at which the request was made,
// "" when it was made elsewhere.
func (s *Server) terminal(ctx context.Context) string {
	conn, ok := unixConn(ctx)
	if !ok || s.Login == nil {
		return ""
	}
	p, err := peer.Of(conn)
	if err != nil {
		return "" // gone already
	}
	defer p.Close()
	t, err := p.Terminal()
	if err != nil || s.Login(ctx, t) != nil {
		return ""
	}
	return t.String()
}

// Serve serves the owner's unix socket, made with Listen, until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting, ends the trays' connections, and waits for requests
// under way until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for conn := range s.trays {
		conn.Close()
	}
	s.mu.Unlock()
	err := s.http.Shutdown(ctx)
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.http.Close()
		return ctx.Err()
	}
	return err
}

// statusOf maps a code to the HTTP status that goes with it. Codes it does not
// know are refusals.
func statusOf(code string) int {
	switch code {
	case "owner_signature_required", "owner_signature_invalid", "owner_instance_changed", "owner_request_replayed":
		return http.StatusUnauthorized
	case "approval_needs_presence", "browser_refused":
		return http.StatusForbidden
	case "body_too_large":
		return http.StatusRequestEntityTooLarge
	case "too_many_requests":
		return http.StatusTooManyRequests
	case "not_available", "daemon_stopping":
		return http.StatusServiceUnavailable
	case "internal":
		return http.StatusInternalServerError
	case "malformed_request", "path_not_canonical":
		return http.StatusBadRequest
	}
	switch {
	case strings.HasSuffix(code, "_not_found"):
		return http.StatusNotFound
	case strings.HasPrefix(code, "unknown_"), strings.HasPrefix(code, "invalid_"), strings.HasPrefix(code, "missing_"):
		return http.StatusBadRequest
	}
	return http.StatusUnprocessableEntity
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Of(err)
	status := statusOf(p.Code)
	s.Log.LogAttrs(r.Context(), slog.LevelInfo, "owner request refused",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("code", p.Code), slog.Any("cause", p.Cause))
	writeJSON(w, status, p)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"internal","message":"The answer could not be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}

// handle adapts a function to a route: the body, if the function wants one, is
// decoded strictly, and whatever it returns is encoded.
func handle[In, Out any](s *Server, status int, f func(r *http.Request, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if _, none := any(in).(struct{}); !none {
			if err := decode(r, &in); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		out, err := f(r, in)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		writeJSON(w, status, out)
	}
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return problem.Wrap(err, "malformed_request", "the body is not what this path takes: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return problem.New("malformed_request", "the body has more than one JSON value")
	}
	return nil
}

func notAvailable(what string) *problem.Error {
	return problem.New("not_available", "this daemon has no %s", what)
}
