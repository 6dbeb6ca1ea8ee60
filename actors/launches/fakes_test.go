package launches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// world is a machine, a store and an owner that do what the test says.
type world struct {
	mu      sync.Mutex
	leases  map[string]messages.Lease
	log     []string        // what happened to the host, in order
	active  map[string]bool // units
	alive   map[string]bool // processes that outlive their unit
	folders map[string]bool
	sums    map[string]string // launch → attach token digest
	drift   func(*messages.Plan)
	touched []string
	noStart error
	revoked int

	hashing   chan struct{} // what Prepare waits for; nil for nothing
	noPrepare error
	starting  chan struct{} // what Start waits for; nil for nothing

	noEvidence error
	takenUp    []string
	ordered    Order    // the last one that was compiled
	whys       []string // of the stored leases
	noTakeUp   error
	onPut      func()
	stuck      map[string]error // folders that can't be removed

	verdict chan messages.ApprovalVerdict
	ended   map[string]chan messages.HostReport
	relays  chan *scriptedRelay
}

func newWorld() *world {
	return &world{leases: map[string]messages.Lease{}, active: map[string]bool{}, alive: map[string]bool{}, folders: map[string]bool{},
		sums: map[string]string{}, verdict: make(chan messages.ApprovalVerdict, 1), ended: map[string]chan messages.HostReport{}, relays: make(chan *scriptedRelay, 8)}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) happened() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func (w *world) PutLease(_ context.Context, l messages.Lease, why string) error {
	if w.onPut != nil {
		w.onPut()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whys = append(w.whys, why)
	w.leases[l.Launch] = l
	return nil
}

func (w *world) Leases(context.Context) (out []messages.Lease, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		out = append(out, l)
	}
	return out, nil
}

func (w *world) Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	select {
	case v := <-w.verdict:
		if v.Digest == "" {
			v.Digest = r.Digest
		}
		return v, nil
	case <-ctx.Done():
		return messages.ApprovalVerdict{Outcome: messages.OutcomeWithdrawn}, nil
	}
}

func (w *world) Compile(_ context.Context, o Order) (messages.Plan, error) {
	p := messages.Plan{Launch: o.Launch, Lease: o.Lease, Resumes: o.Resumes, ProfileName: "Codex reviewer", Seat: o.Seat, PeerDigest: "wrapper", LeaseSeconds: 3600}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ordered = o
	if w.drift != nil && w.leases[o.Launch].Launch != "" {
		w.drift(&p)
	}
	return p, nil
}

type held struct {
	w     *world
	ahead bool
}

func (h held) Close() error { h.w.note("released"); return nil }

func (w *world) Prepare(ctx context.Context, _ messages.Plan) (Held, error) {
	if w.hashing != nil {
		select {
		case <-w.hashing:
		case <-ctx.Done(): // and the hash was done at the same moment
		}
	}
	if w.noPrepare != nil {
		return nil, w.noPrepare
	}
	return held{w, true}, nil
}

func (w *world) Verify(_ context.Context, _ messages.Plan, ahead Held) (Held, error) {
	if h, ok := ahead.(held); ok && h.ahead {
		w.note("rechecked")
		return ahead, nil
	}
	w.note("hashed")
	return held{w, false}, nil
}

func (w *world) Evidence(context.Context, messages.Plan) ([]messages.SourceState, error) {
	return []messages.SourceState{{Path: "/home/o/.gitconfig", State: "missing"}}, w.noEvidence
}

func (w *world) TakeUp(_ context.Context, l messages.Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takenUp = append(w.takenUp, l.Launch)
	return w.noTakeUp
}

func (w *world) Start(_ context.Context, s StartSpec) (messages.UnitRef, error) {
	if w.starting != nil {
		<-w.starting // whatever becomes of who asked: the request is on its way
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "started")
	id := s.Plan.Launch
	if l := w.leases[id]; l.Evidence == nil || len(l.Evidence.Before) == 0 {
		w.log = append(w.log, "STARTED WITHOUT EVIDENCE")
	}
	if w.noStart != nil {
		return messages.UnitRef{}, w.noStart
	}
	w.active[id], w.folders[id], w.sums[id] = true, true, s.TokenSHA256
	w.ended[id] = make(chan messages.HostReport, 1)
	return messages.UnitRef{Name: "sophia-launch-" + id}, nil
}

func (w *world) Watch(ctx context.Context, launch string, _ messages.UnitRef) (messages.HostReport, error) {
	w.mu.Lock()
	ch, active := w.ended[launch], w.active[launch]
	w.mu.Unlock()
	if !active {
		return messages.HostReport{}, nil
	}
	select {
	case r := <-ch:
		w.mu.Lock()
		w.active[launch] = false
		w.mu.Unlock()
		return r, nil
	case <-ctx.Done():
		return messages.HostReport{}, ctx.Err()
	}
}

func (w *world) Stop(_ context.Context, launch string, _ messages.UnitRef) error {
	w.note("stopped")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[launch] = false
	return nil
}

func (w *world) Quiet(ctx context.Context, launch string, _ messages.UnitRef, bound time.Duration) (string, error) {
	t := time.NewTimer(bound)
	defer t.Stop()
	poll := time.NewTicker(bound / 10)
	defer poll.Stop()
	for {
		w.mu.Lock()
		alive := w.alive[launch] || w.active[launch]
		w.mu.Unlock()
		if !alive {
			w.note("quiet")
			return "", nil
		}
		select {
		case <-t.C:
			return "pid 7 (sleep)", nil
		case <-poll.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (w *world) Compare(context.Context, messages.Lease) (messages.Evidence, error) {
	w.note("compared")
	return messages.Evidence{Untouched: len(w.touched) == 0, Changed: w.touched}, nil
}

func (w *world) Remove(_ context.Context, launch string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active[launch] || w.alive[launch] {
		w.log = append(w.log, "REMOVED UNDER A LIVE PROCESS")
	}
	if err := w.stuck[launch]; err != nil {
		return err
	}
	w.log = append(w.log, "removed")
	delete(w.folders, launch)
	return nil
}

func (w *world) Strip(_ context.Context, l messages.Lease) error {
	w.note("stripped")
	return w.stuck[l.Launch]
}

func (w *world) Folders() (out []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.folders {
		out = append(out, f)
	}
	return out, nil
}

func (w *world) TerminalSocket(launch string) string { return "/run/" + launch }

func (w *world) MintForLease(_ context.Context, p messages.Plan, _ time.Time) (messages.ConnectionRow, *secret.Secret, error) {
	b, err := secret.New([]byte("bearer of " + p.Launch))
	row := messages.ConnectionRow{}
	row.Connection, row.Lease, row.Launch = "conn-"+p.Launch, p.Lease, p.Launch
	return row, b, err
}

func (w *world) RevokeForLease(context.Context, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoked++
	return nil
}

// scriptedRelay keeps the handle for the test to take.
type scriptedRelay struct {
	spec envelope.Spec
	ref  *supervise.Ref
}

type die struct{}

func (r *scriptedRelay) Receive(c *actor.Context) {
	switch c.Message().(type) {
	case actor.Started:
		r.ref = supervise.Self(c)
	case actor.Stopped:
		r.spec.Handle.Zero()
	case die:
		panic("the relay was told to")
	}
}

func (w *world) Relay(s envelope.Spec) actor.Receiver {
	r := &scriptedRelay{spec: s}
	w.relays <- r
	return r
}

// machine is all that the launches need of the rest.
type machine interface {
	Store
	Gate
	Planner
	Host
	Connections
	Relays
}

// daemon starts the launches over w, as one life of sophiad would.
func (w *world) daemon(t *testing.T) (*Service, func()) { t.Helper(); return w.daemonOn(t, w) }

func (w *world) daemonOn(t *testing.T, m machine) (*Service, func()) {
	t.Helper()
	return w.daemonWith(t, m, Options{})
}

func (w *world) daemonWith(t *testing.T, m machine, o Options) (*Service, func()) {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Ports{Store: m, Gate: m, Planner: m, Host: m, Connections: m, Relays: m}, o)
	tree, err := supervise.Start(e, "sophiad", supervise.Policy{}, s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // reconciled
	return s, func() {
		if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("stopping: %v, left %v", err, left)
		}
	}
}

// in runs f in virtual time.
func in(t *testing.T, f func(t *testing.T, w *world)) {
	before := secret.Live()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld()) })
	if n := secret.Live() - before; n != 0 {
		t.Errorf("%d secrets were left in memory", n)
	}
}

// until waits for a state.
func until(t *testing.T, s *Service, launch string, want messages.LeaseState) messages.Lease {
	t.Helper()
	l, err := s.Get(t.Context(), launch)
	for err == nil && l.State != want {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		l, err = s.Wait(ctx, launch, l.State)
		cancel()
		if err == nil && l.State != want && (l.State == messages.LeaseEnded || l.State == messages.LeaseFailed || l.State == messages.LeaseRefused) {
			t.Fatalf("%s (%s: %s), want %s", l.State, l.Code, l.Reason, want)
		}
	}
	if err != nil {
		t.Fatalf("waiting for %s: %v", want, err)
	}
	return l
}

// handle copies the handle that a relay would hand out.
func (r *scriptedRelay) handle(t *testing.T) *secret.Secret {
	t.Helper()
	h, err := r.spec.Handle.Clone()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// approved proposes a launch, to which the owner says yes.
func (w *world) approved(t *testing.T, s *Service) messages.Lease {
	t.Helper()
	l, err := s.Propose(t.Context(), Order{})
	if err != nil {
		t.Fatal(err)
	}
	w.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeApproved}
	return l
}

// running brings a launch to running, as an approved launch of a well-behaved
// harness gets there.
func (w *world) running(t *testing.T, s *Service) (messages.Lease, *scriptedRelay) {
	t.Helper()
	l, err := s.Propose(t.Context(), Order{Seat: "Reviewer_1"})
	if err != nil || l.State != messages.LeasePending {
		t.Fatalf("proposed: %s, %v", l.State, err)
	}
	w.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeApproved}
	until(t, s, l.Launch, messages.LeaseRedeeming)
	relay := <-w.relays
	bearer, err := s.Redeem(t.Context(), l.Launch, l.ID, "wrapper", relay.handle(t))
	if err != nil {
		t.Fatal(err)
	}
	bearer.Zero()
	r, err := s.Receipt(t.Context(), messages.Authority{Connection: "conn-" + l.Launch, Launch: l.Launch, Lease: l.ID}, "nonce-1")
	if err != nil || r.Lease != l.ID || r.Nonce != "nonce-1" || r.PlanDigest != l.PlanDigest {
		t.Fatalf("receipt %+v, %v", r, err)
	}
	return until(t, s, l.Launch, messages.LeaseRunning), relay
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if problem.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

var errNoBus = errors.New("no bus")
