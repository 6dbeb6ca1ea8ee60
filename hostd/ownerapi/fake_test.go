package ownerapi

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sophia/actors/approvals"
	"sophia/hostd/ownerkey"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// daemon is a small in-memory daemon behind the services.
type daemon struct {
	mu          sync.Mutex
	connections []messages.ConnectionRow
	bearer      []byte // the last one minted
	workspaces  []messages.Workspace
	leases      map[string]messages.Lease
	changed     chan struct{}
	attached    map[string]bool
	approvals   []messages.ApprovalRequest
	decided     []string
	events      chan []messages.TrayEvent
}

func newDaemon() *daemon {
	return &daemon{leases: map[string]messages.Lease{}, changed: make(chan struct{}), attached: map[string]bool{}, events: make(chan []messages.TrayEvent, 16)}
}

func (d *daemon) services() Services {
	return Services{
		Status:      func(context.Context) (Status, error) { return Status{PID: 42, MCP: "http://127.0.0.1:1/mcp"}, nil },
		Connections: (*fakeConnections)(d),
		Workspaces:  (*fakeWorkspaces)(d),
		Launches:    (*fakeLaunches)(d),
		Approvals:   (*fakeApprovals)(d),
		Trays:       (*fakeTrays)(d),
		Journal:     fakeJournal{},
		Tools:       fakeTools{},
		Harnesses:   fakeHarnesses{},
	}
}

type fakeConnections daemon

func (d *fakeConnections) Mint(_ context.Context, ask MintRequest) (messages.ConnectionRow, *secret.Secret, error) {
	bearer, err := secret.Random("sph_", 32)
	if err != nil {
		return messages.ConnectionRow{}, nil, err
	}
	bearer.Use(func(b []byte) error { d.bearer = append([]byte(nil), b...); return nil })
	row := messages.ConnectionRow{Authority: messages.Authority{Connection: "conn-0a1b2c", Name: ask.Name, Profile: ask.Profile, Scope: ask.Scope}}
	d.connections = append(d.connections, row)
	return row, bearer, nil
}
func (d *fakeConnections) List(context.Context) ([]messages.ConnectionRow, error) {
	return d.connections, nil
}
func (d *fakeConnections) Revoke(_ context.Context, id string) (messages.ConnectionRow, error) {
	for i, c := range d.connections {
		if c.Connection == id {
			now := time.Now()
			d.connections[i].Revoked = &now
			return d.connections[i], nil
		}
	}
	return messages.ConnectionRow{}, problem.New("connection_not_found", "there is no connection %q", id)
}

type fakeWorkspaces daemon

func (d *fakeWorkspaces) Add(_ context.Context, ask AddWorkspace) (AddedWorkspace, error) {
	w := messages.Workspace{ID: "ws-1f2ce8", Name: filepath.Base(ask.Path), Path: ask.Path}
	d.workspaces = append(d.workspaces, w)
	return AddedWorkspace{Workspace: w, New: true, Documents: 3}, nil
}
func (d *fakeWorkspaces) List(context.Context) ([]messages.Workspace, error) {
	return d.workspaces, nil
}
func (d *fakeWorkspaces) Profiles(context.Context, string) ([]messages.LaunchProfile, error) {
	return []messages.LaunchProfile{{ID: "codex-reviewer", Name: "Codex reviewer", Harness: "codex", Default: true}}, nil
}

type fakeLaunches daemon

func (d *fakeLaunches) Propose(ctx context.Context, ws string, ask StartRequest) (messages.Lease, error) {
	at := approvals.Terminal(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := messages.Lease{Launch: "lp-9c41d7", State: messages.LeasePending, Plan: messages.Plan{Workspace: ws, Seat: ask.Seat}, Reason: at}
	d.leases[l.Launch] = l
	return l, nil
}
func (d *fakeLaunches) List(context.Context) ([]messages.Lease, error) { return nil, nil }
func (d *fakeLaunches) Get(_ context.Context, id string) (messages.Lease, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.leases[id]
	if !ok {
		return l, problem.New("launch_not_found", "there is no launch %q", id)
	}
	return l, nil
}
func (d *fakeLaunches) set(id string, state messages.LeaseState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.leases[id]
	l.State = state
	d.leases[id] = l
	close(d.changed)
	d.changed = make(chan struct{})
}
func (d *fakeLaunches) Wait(ctx context.Context, id string, after messages.LeaseState) (messages.Lease, error) {
	for {
		d.mu.Lock()
		l, changed := d.leases[id], d.changed
		d.mu.Unlock()
		if l.State != after {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return l, nil
		}
	}
}
func (d *fakeLaunches) Attach(_ context.Context, id string) (string, *secret.Secret, error) {
	if d.attached[id] {
		return "", nil, problem.New("token_consumed", "the attach token of %s was given out", id)
	}
	d.attached[id] = true
	raw := make([]byte, TokenSize)
	for i := range raw {
		raw[i] = byte(i) // zero bytes and control characters must survive
	}
	s, err := secret.New(raw)
	return "/run/t.sock", s, err
}
func (d *fakeLaunches) Stop(ctx context.Context, id string) (messages.Lease, error) {
	return d.Get(ctx, id)
}

type fakeApprovals daemon

func (d *fakeApprovals) List(context.Context) ([]messages.ApprovalRequest, error) {
	return append([]messages.ApprovalRequest(nil), d.approvals...), nil
}
func (d *fakeApprovals) Decide(_ context.Context, id, digest, outcome, by, reason string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, have := range d.decided {
		if have == id {
			return problem.New("approval_already_decided", "%s was approved by %s", id, by)
		}
	}
	d.decided = append(d.decided, id)
	return nil
}

type fakeTrays daemon

func (d *fakeTrays) Subscribe(context.Context, string) (Feed, error) { return &fakeFeed{d: d}, nil }

type fakeFeed struct {
	d     *fakeTrays
	first bool
}

func (f *fakeFeed) Next(ctx context.Context) ([]messages.TrayEvent, error) {
	if !f.first {
		f.first = true
		var events []messages.TrayEvent
		for i := range f.d.approvals {
			events = append(events, messages.TrayEvent{Kind: messages.TrayAsked, Request: &f.d.approvals[i]})
		}
		return events, nil
	}
	select {
	case e := <-f.d.events:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
func (f *fakeFeed) Close() {}

type fakeJournal struct{}

func (fakeJournal) List(_ context.Context, q JournalQuery) (Page[Mutation], error) {
	return Page[Mutation]{Items: []Mutation{{Seq: 7, Table: q.Table, After: json.RawMessage(`{"a":1}`)}}, Total: 1}, nil
}
func (fakeJournal) Get(_ context.Context, seq uint64) (Mutation, error) {
	return Mutation{Seq: seq}, nil
}
func (fakeJournal) Revert(_ context.Context, seq uint64, reason string) (Mutation, error) {
	return Mutation{Seq: 8, Reverts: seq, Reason: reason}, nil
}

type fakeTools struct{}

func (fakeTools) List(context.Context) ([]Tool, error) { return []Tool{{Name: "sophia.orient"}}, nil }
func (fakeTools) Describe(_ context.Context, name string) (Tool, error) {
	return Tool{Name: name}, nil
}
func (fakeTools) Call(_ context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"tool":"` + name + `","got":` + string(arguments) + `}`), nil
}

type fakeHarnesses struct{}

func (fakeHarnesses) List(context.Context) ([]Harness, error) { return nil, nil }
func (fakeHarnesses) Adopt(_ context.Context, ask AdoptRequest) (Harness, error) {
	return Harness{Harness: ask.Harness, Adopted: true}, nil
}

// served is a server on a real socket and a client for it.
type served struct {
	*daemon
	server *Server
	client *Client
	key    *ownerkey.Key
	socket string
	dir    string
	login  func(context.Context, peer.Terminal) error // for the next start
}

func serve(t *testing.T, presence Presence) *served {
	t.Helper()
	// Not t.TempDir: its path holds the test's name, and a socket's path is short.
	dir, err := os.MkdirTemp("", "oa")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	key, err := ownerkey.LoadOrCreate(filepath.Join(dir, "owner.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(key.Close)
	s := &served{daemon: newDaemon(), key: key, socket: filepath.Join(dir, "o.sock"), dir: dir}
	s.start(t, presence)
	if s.client, err = NewClient(s.socket, key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// start begins a run of the daemon; the returned function ends it.
func (s *served) start(t *testing.T, presence Presence) (stop func()) {
	t.Helper()
	server, err := New(Config{
		Owner: publicOf(s.key), Services: s.services(), Presence: presence,
		Login: s.login, Bearers: filepath.Join(s.dir, "bearers"), MCP: func() string { return "http://127.0.0.1:1/mcp" },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// raw sends bytes and returns the whole answer.
func (s *served) raw(t *testing.T, request []byte) string {
	t.Helper()
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func publicOf(key *ownerkey.Key) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }
