package transport

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sophia/mcp/dispatch"
	"sophia/messages"
)

// Authorities finds the connection of a bearer. It is asked on every request.
type Authorities interface {
	// ByBearer takes the bearer's SHA-256. ok is false for an unknown, revoked
	// or expired bearer: the three look the same. err is a failure to look.
	ByBearer(ctx context.Context, sum [sha256.Size]byte) (a messages.Authority, ok bool, err error)
}

// Admission bounds what one connection has under way. Enter returns a
// *problem.Error: too_many_calls when there is too much, any other code when the
// daemon can't admit anybody now.
type Admission interface {
	Enter(ctx context.Context, a messages.Authority) (leave func(), err error)
}

// Config is what a Transport needs. Zero values take the defaults named.
type Config struct {
	Dispatcher   *dispatch.Dispatcher
	Authorities  Authorities
	Admission    Admission
	Version      string // of the server, as clients see it
	Instructions string // shown to a model when it connects

	Hosts       []string      // names accepted in Host and Origin beside localhost, 127.0.0.1 and [::1]
	MaxBody     int64         // bytes of a request; 4 MiB
	SessionIdle time.Duration // after which a session without an open stream ends; 1 h
	MaxSessions int           // per connection, the longest idle one gives way; 64
	MaxStreams  int           // long-lived streams per connection; 16
	KeepAlive   time.Duration // between signs of life on a stream; 15 s
	WriteWait   time.Duration // how long a client may not take what is written; 30 s
	Log         *slog.Logger

	// ServerOptions are added to mcp-go's server: the conformance fixtures need some.
	ServerOptions []server.ServerOption

	viaServer bool // tests: every call goes through HandleMessage
}

// Transport is an http.Handler. Make it with New and end it with Close.
type Transport struct {
	c        Config
	mcp      *server.MCPServer
	info     mcp.Implementation
	catalog  *catalog
	sessions *sessions
	streams  counter
	asked    atomic.Uint64 // requests to clients, for their ids

	base   context.Context // ends every stream and call
	cancel context.CancelFunc

	mu      sync.Mutex
	closing bool
	drain   context.Context // ended by Close: streams end, calls go on
	quiesce context.CancelFunc
	active  int
	idle    chan struct{} // closed when closing and nothing is active
	swept   chan struct{}
}

// New makes a transport and starts its sweeper.
func New(c Config) (*Transport, error) {
	if c.Dispatcher == nil || c.Authorities == nil || c.Admission == nil {
		return nil, errors.New("transport: needs a dispatcher, authorities and an admission")
	}
	orDefault(&c.MaxBody, 4<<20)
	orDefault(&c.SessionIdle, time.Hour)
	orDefault(&c.MaxSessions, 64)
	orDefault(&c.MaxStreams, 16)
	orDefault(&c.KeepAlive, 15*time.Second)
	orDefault(&c.WriteWait, 30*time.Second)
	orDefault(&c.Version, "0.0.0")
	if c.Log == nil {
		c.Log = slog.Default()
	}
	options := append([]server.ServerOption{
		server.WithToolCapabilities(false),
		server.WithInstructions(c.Instructions),
		server.WithTitle(title),
	}, c.ServerOptions...)
	t := &Transport{c: c, mcp: server.NewMCPServer("sophia", c.Version, options...), info: mcp.Implementation{Name: "sophia", Version: c.Version, Title: title},
		idle: make(chan struct{}), swept: make(chan struct{})}
	t.catalog = newCatalog(c.Dispatcher)
	t.base, t.cancel = context.WithCancel(context.Background())
	t.drain, t.quiesce = context.WithCancel(t.base)
	t.sessions = newSessions(c.MaxSessions, t.mcp)
	go t.sweep()
	return t, nil
}

const title = "Sophia"

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Server is mcp-go's server, for fixtures that are not Sophia's tools.
func (t *Transport) Server() *server.MCPServer { return t.mcp }

// ServeHTTP routes. Everything else is a 404, /.well-known too: there is no OAuth here.
func (t *Transport) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.hostAllowed(r) {
		refuse(w, http.StatusForbidden, "forbidden_host", "Sophia answers on this machine only: the Host or Origin of the request is not accepted")
		return
	}
	tool, rest := cutPrefix(r.URL.Path, "/api/v1/tools/")
	if r.URL.Path != "/mcp" && !rest {
		refuse(w, http.StatusNotFound, "not_found", "there is nothing at this path; MCP is at /mcp")
		return
	}
	if !t.enter() {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "shutting_down", "the daemon is stopping")
		return
	}
	defer t.exit()
	a, err := t.authority(r)
	if err != nil {
		t.refuseBearer(w, rest, err)
		return
	}
	switch {
	case rest:
		t.serveREST(w, r, a, tool)
	case r.Method == http.MethodPost:
		t.servePost(w, r, a)
	case r.Method == http.MethodGet:
		t.serveGet(w, r, a)
	case r.Method == http.MethodDelete:
		t.serveDelete(w, r, a)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "use POST, GET or DELETE")
	}
}

func (t *Transport) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return false
	}
	t.active++
	return true
}

func (t *Transport) exit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active--; t.closing && t.active == 0 {
		close(t.idle)
	}
}

// Close refuses new requests, ends the streams, lets the calls finish until ctx
// ends, and then cancels them. It returns when none is left.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	if t.closing {
		t.mu.Unlock()
		<-t.idle
		return nil
	}
	t.closing = true
	if t.active == 0 {
		close(t.idle)
	}
	t.mu.Unlock()
	t.quiesce()
	var err error
	select {
	case <-t.idle:
	case <-ctx.Done():
		err = ctx.Err()
		t.cancel()
		<-t.idle
	}
	t.cancel()
	<-t.swept
	t.sessions.dropAll()
	return err
}

func (t *Transport) sweep() {
	defer close(t.swept)
	tick := time.NewTicker(max(t.c.SessionIdle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-t.base.Done():
			return
		case now := <-tick.C:
			t.sessions.sweep(now.Add(-t.c.SessionIdle))
		}
	}
}

// Sessions is how many are alive.
func (t *Transport) Sessions() int { return t.sessions.len() }

// counter counts things per connection up to a limit.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(key string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[key] >= limit {
		return false
	}
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key]++
	return true
}

func (c *counter) done(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[key]--; c.n[key] <= 0 {
		delete(c.n, key)
	}
}
