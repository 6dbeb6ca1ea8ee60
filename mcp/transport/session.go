package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// session is one client's handshake: who it is and what it said of itself. It
// holds no goroutine, and what few sessions need is made when it is needed.
type session struct {
	id         string
	connection string // whose it is

	mu      sync.Mutex
	last    time.Time // when it was last used
	busy    int       // requests and streams under way; a busy session is not idle
	ended   bool
	ready   bool
	version string
	client  *mcp.Implementation
	caps    *mcp.ClientCapabilities
	level   mcp.LoggingLevel
	more    *sessionExtras
}

type sessionExtras struct {
	stream  chan mcp.JSONRPCNotification // of the open GET, nil without one
	cancels map[int]underWay
	next    int
	asked   map[string]chan envelope // requests to the client that wait for its answer
}

// underWay is a request or a stream.
type underWay struct {
	id     string // of the request, as it was sent; "" for a stream
	cancel context.CancelFunc
}

func newSession(connection string, now time.Time) *session {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (Go 1.24)
	return &session{id: hex.EncodeToString(b[:]), connection: connection, last: now}
}

// begin notes something under way that ends with the session. false: it is over.
func (s *session) begin(id json.RawMessage, cancel context.CancelFunc) (end func(now time.Time), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, false
	}
	x := s.extras()
	x.next++
	key := x.next
	x.cancels[key] = underWay{string(id), cancel}
	s.busy++
	return func(now time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		s.last = now
		delete(x.cancels, key)
		if s.busy == 0 && x.stream == nil && len(x.asked) == 0 {
			s.more = nil // an idle session is small
		}
	}, true
}

func (s *session) extras() *sessionExtras {
	if s.more == nil {
		s.more = &sessionExtras{cancels: map[int]underWay{}, asked: map[string]chan envelope{}}
	}
	return s.more
}

// end cancels what is under way, streams too.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.more != nil {
		for _, u := range s.more.cancels {
			u.cancel()
		}
	}
}

// cancelRequest cancels what is under way under a request's id.
func (s *session) cancelRequest(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more == nil || id == nil {
		return
	}
	for _, u := range s.more.cancels {
		if u.id == string(id) {
			u.cancel()
		}
	}
}

// openStream makes this the session's one stream. false: it has one.
func (s *session) openStream() (<-chan mcp.JSONRPCNotification, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.extras()
	if x.stream != nil {
		return nil, false
	}
	x.stream = make(chan mcp.JSONRPCNotification, 64)
	return x.stream, true
}

func (s *session) closeStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extras().stream = nil
}

// expect waits for the client's answer to a request of ours.
func (s *session) expect(id string) <-chan envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan envelope, 1)
	s.extras().asked[id] = ch
	return ch
}

func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		delete(s.more.asked, id)
	}
}

// answer hands a client's answer to whom it is for; one that nobody waits for is dropped.
func (s *session) answer(e envelope) {
	var id string
	if json.Unmarshal(e.id, &id) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more == nil {
		return
	}
	if ch := s.more.asked[id]; ch != nil {
		delete(s.more.asked, id)
		ch <- e
	}
}

// What mcp-go asks of a session that it broadcasts to.
func (s *session) SessionID() string { return s.id }

func (s *session) Initialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

func (s *session) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// NotificationChannel is nil without an open stream: mcp-go's send then takes
// its default branch, and nothing is kept for nobody.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more == nil {
		return nil
	}
	return s.more.stream
}

// sessions is the table of all sessions.
type sessions struct {
	limit int // per connection
	mcp   *server.MCPServer

	mu   sync.Mutex
	byID map[string]*session
	of   map[string]int // connection → how many
}

func newSessions(limit int, m *server.MCPServer) *sessions {
	return &sessions{limit: limit, mcp: m, byID: map[string]*session{}, of: map[string]int{}}
}

func (t *sessions) add(s *session) {
	t.mu.Lock()
	var out *session
	if t.of[s.connection] >= t.limit {
		out = t.longestIdle(s.connection)
		t.remove(out)
	}
	t.byID[s.id] = s
	t.of[s.connection]++
	t.mu.Unlock()
	_ = t.mcp.RegisterSession(context.Background(), s)
	if out != nil {
		t.finish(out)
	}
}

func (t *sessions) longestIdle(connection string) *session {
	var oldest *session
	var at time.Time
	var busy bool
	for _, s := range t.byID {
		if s.connection != connection {
			continue
		}
		s.mu.Lock()
		last, b := s.last, s.busy > 0
		s.mu.Unlock()
		if oldest == nil || busy && !b || busy == b && last.Before(at) {
			oldest, at, busy = s, last, b
		}
	}
	return oldest
}

func (t *sessions) remove(s *session) {
	if s == nil || t.byID[s.id] != s {
		return
	}
	delete(t.byID, s.id)
	if t.of[s.connection]--; t.of[s.connection] == 0 {
		delete(t.of, s.connection)
	}
}

func (t *sessions) finish(s *session) {
	t.mcp.UnregisterSession(context.Background(), s.id)
	s.end()
}

// find returns a session of this connection. Someone else's is not found.
func (t *sessions) find(id, connection string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[id]; s != nil && s.connection == connection {
		return s
	}
	return nil
}

func (t *sessions) drop(s *session) {
	t.mu.Lock()
	t.remove(s)
	t.mu.Unlock()
	t.finish(s)
}

// sweep ends the sessions that nobody used since before.
func (t *sessions) sweep(before time.Time) {
	var out []*session
	t.mu.Lock()
	for _, s := range t.byID {
		s.mu.Lock()
		if s.busy == 0 && s.last.Before(before) {
			out = append(out, s)
		}
		s.mu.Unlock()
	}
	for _, s := range out {
		t.remove(s)
	}
	t.mu.Unlock()
	for _, s := range out {
		t.finish(s)
	}
}

func (t *sessions) dropAll() {
	t.mu.Lock()
	all := t.byID
	t.byID, t.of = map[string]*session{}, map[string]int{}
	t.mu.Unlock()
	for _, s := range all {
		t.finish(s)
	}
}

func (t *sessions) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
