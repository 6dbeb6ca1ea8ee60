package launches

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sophia/actors/launches/lease"
	"sophia/messages"
	"sophia/messages/problem"
)

var update = flag.Bool("update", false, "write docs/faults.md")

// states are the state table's rows in which something can be killed.
var states = []messages.LeaseState{
	messages.LeaseProposed, messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying, messages.LeaseStarting, messages.LeaseRedeeming,
	messages.LeaseRunning, messages.LeaseStopping, messages.LeaseQuiescing, messages.LeaseUnquiet, messages.LeaseEvidencing,
}

// stage is a world that can be held in any state, and whose bus can be lost.
type stage struct {
	*world
	mu    sync.Mutex
	holds map[string]chan struct{} // by step
	bus   error
	began bool // the unit runs before Start returns
}

// step waits while the step is held.
func (s *stage) step(ctx context.Context, name string) error {
	s.mu.Lock()
	hold := s.holds[name]
	s.mu.Unlock()
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stage) hold(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[name] = make(chan struct{})
}

func (s *stage) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, hold := range s.holds {
		close(hold)
		delete(s.holds, name)
	}
}

func (s *stage) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bus
}

func (s *stage) setBus(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bus = err
}

func (s *stage) PutLease(ctx context.Context, l messages.Lease, why string) error {
	if err := s.step(ctx, "put "+string(l.State)); err != nil {
		return err
	}
	return s.world.PutLease(ctx, l, why)
}

func (s *stage) Compile(ctx context.Context, o Order) (messages.Plan, error) {
	s.world.mu.Lock()
	approved := s.leases[o.Launch].State == messages.LeaseApproved
	s.world.mu.Unlock()
	if approved {
		if err := s.step(ctx, "match"); err != nil {
			return messages.Plan{}, err
		}
	}
	return s.world.Compile(ctx, o)
}

func (s *stage) Verify(ctx context.Context, p messages.Plan, ahead Held) (Held, error) {
	if err := s.step(ctx, "verify"); err != nil {
		return ahead, err
	}
	return s.world.Verify(ctx, p, ahead)
}

func (s *stage) Start(ctx context.Context, spec StartSpec) (messages.UnitRef, error) {
	if !s.began {
		if err := s.step(ctx, "start"); err != nil {
			return messages.UnitRef{}, err
		}
	}
	if err := s.lost(); err != nil {
		return messages.UnitRef{}, err
	}
	ref, err := s.world.Start(ctx, spec)
	if s.began {
		if err := s.step(ctx, "start"); err != nil {
			return messages.UnitRef{}, err
		}
	}
	return ref, err
}

func (s *stage) Watch(ctx context.Context, launch string, u messages.UnitRef) (messages.HostReport, error) {
	if err := s.lost(); err != nil {
		return messages.HostReport{}, err
	}
	return s.world.Watch(ctx, launch, u)
}

func (s *stage) Stop(ctx context.Context, launch string, u messages.UnitRef) error {
	if err := s.step(ctx, "stop"); err != nil {
		return err
	}
	if err := s.lost(); err != nil {
		return err
	}
	return s.world.Stop(ctx, launch, u)
}

func (s *stage) Compare(ctx context.Context, l messages.Lease) (messages.Evidence, error) {
	if err := s.step(ctx, "compare"); err != nil {
		return messages.Evidence{}, err
	}
	return s.world.Compare(ctx, l)
}

// reach brings a launch into a state and holds it there.
func (s *stage) reach(t *testing.T, svc *Service, state messages.LeaseState) string {
	t.Helper()
	for held, step := range map[messages.LeaseState]string{messages.LeaseProposed: "put " + string(messages.LeasePending), messages.LeaseApproved: "match",
		messages.LeaseVerifying: "verify", messages.LeaseStarting: "start", messages.LeaseStopping: "stop", messages.LeaseEvidencing: "compare"} {
		if held == state {
			s.hold(step)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	l, err := svc.Propose(ctx, Order{Seat: "Reviewer_1"})
	if err != nil && state != messages.LeaseProposed {
		t.Fatal(err)
	}
	if state == messages.LeaseProposed || state == messages.LeasePending {
		return s.only(t)
	}
	s.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeApproved}
	if slices.Index(states, state) <= slices.Index(states, messages.LeaseStarting) {
		until(t, svc, l.Launch, state)
		synctest.Wait()
		return l.Launch
	}
	until(t, svc, l.Launch, messages.LeaseRedeeming)
	relay := <-s.relays
	bearer, err := svc.Redeem(t.Context(), l.Launch, l.ID, "wrapper", relay.handle(t))
	if err != nil {
		t.Fatal(err)
	}
	bearer.Zero()
	if state == messages.LeaseRedeeming {
		synctest.Wait()
		return l.Launch
	}
	if _, err := svc.Receipt(t.Context(), messages.Authority{Connection: "conn-" + l.Launch, Launch: l.Launch, Lease: l.ID}, "nonce-1"); err != nil {
		t.Fatal(err)
	}
	if state == messages.LeaseRunning {
		return l.Launch
	}
	if state == messages.LeaseQuiescing || state == messages.LeaseUnquiet {
		s.world.mu.Lock()
		s.alive[l.Launch] = true
		s.world.mu.Unlock()
	}
	if _, err := svc.Stop(t.Context(), l.Launch); err != nil {
		t.Fatal(err)
	}
	until(t, svc, l.Launch, state)
	synctest.Wait()
	return l.Launch
}

func (s *stage) only(t *testing.T) string {
	t.Helper()
	synctest.Wait()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for id := range s.leases {
		return id
	}
	t.Fatal("nothing was stored")
	return ""
}

// ends lets the launch's unit end, as systemd sees it.
func (s *stage) ends(launch string, r messages.HostReport) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if ch := s.ended[launch]; ch != nil {
		ch <- r
	}
}

// A blow is a fault, in which states it can strike, and how.
type blow struct {
	name   string
	in     []messages.LeaseState // nil for all
	strike func(t *testing.T, svc *Service, s *stage, launch string)
	down   bool                           // in order: every launch is ended first
	proven bool                           // its wrapper still proves what it has redeemed
	began  bool                           // in starting: it strikes when the unit runs, and systemd has not answered yet
	shown  map[messages.LeaseState]string // the test with real processes, by state; "" for every other
}

const (
	byDaemon = "TestCrash_DaemonKilledAtEveryStateOfALaunch"
	byParts  = "TestCrash_HostWrapperAndHarnessKilledWhileRunning"
	byFaults = "TestFaults_AtEachStateOfARealLaunch"
)

var errBusLost = problem.New("systemd_unavailable", "The user's systemd manager can't be reached")

var (
	withWrapper = []messages.LeaseState{messages.LeaseRedeeming, messages.LeaseRunning, messages.LeaseStopping}
	fromStart   = append([]messages.LeaseState{messages.LeaseStarting}, withWrapper...)
)

var blows = []blow{
	{name: "kill -9 of the daemon", shown: map[messages.LeaseState]string{"": byDaemon, messages.LeaseUnquiet: "TestQuiet_SurvivorsKeepTheOverlayUntilTheyDie"}},
	{name: "kill -9 of the host", in: fromStart, began: true, shown: map[messages.LeaseState]string{messages.LeaseRunning: byParts, "": byFaults},
		strike: func(_ *testing.T, _ *Service, s *stage, launch string) {
			s.ends(launch, messages.HostReport{Stage: messages.StageRunning})
		}},
	{name: "kill -9 of the harness", in: fromStart, began: true, shown: map[messages.LeaseState]string{messages.LeaseRunning: byParts, "": byFaults},
		strike: func(_ *testing.T, _ *Service, s *stage, launch string) {
			s.ends(launch, messages.HostReport{Stage: messages.StageExited, ExitCode: 137, Signal: "killed"})
		}},
	// The bearer dies with a wrapper that has not deposited it, as the relay
	// notices. Later the next wrapper gets the deposit: nothing reaches the lease.
	{name: "kill -9 of the wrapper", in: withWrapper,
		shown: map[messages.LeaseState]string{messages.LeaseRunning: byParts, "": byFaults},
		strike: func(t *testing.T, svc *Service, s *stage, launch string) {
			if s.stored(t, launch).State == messages.LeaseRedeeming {
				svc.Fail(launch, "wrapper_lost", "The wrapper ended while it alone held the credential.")
			}
		}},
	{name: "its unit stopped by systemd", in: fromStart, began: true, shown: map[messages.LeaseState]string{"": "TestStopped_TheUnitOrTheDaemonByTheOwner"},
		strike: func(_ *testing.T, _ *Service, s *stage, launch string) {
			s.ends(launch, messages.HostReport{Stage: messages.StageExited, ExitCode: 143, Signal: "terminated", Stopped: true})
		}},
	// Three states are too short to be held where the stop strikes: what it leaves in
	// them is what a kill leaves.
	{name: "the daemon stopped in order", down: true, shown: map[messages.LeaseState]string{
		messages.LeaseProposed: byDaemon, messages.LeaseApproved: byDaemon, messages.LeaseEvidencing: byDaemon,
		messages.LeaseUnquiet: "TestLaunches_ClosedTheyTakeNoNewOneAndKeepWhatSurvives", "": "TestStopped_TheUnitOrTheDaemonByTheOwner"}},
	{name: "systemd out of reach for a minute", proven: true, in: []messages.LeaseState{messages.LeaseStarting, messages.LeaseRedeeming, messages.LeaseRunning, messages.LeaseStopping},
		shown:  map[messages.LeaseState]string{"": byFaults},
		strike: func(_ *testing.T, _ *Service, s *stage, _ string) { s.setBus(errBusLost) }},
}

// row is what came of one blow.
type row struct {
	state, fault, way, end, told, shown string
}

// Every fault at every state in which it can strike: the launch ends as it
// should or goes on, and nothing is left of it. docs/faults.md is what this
// test saw.
func TestFaults_EveryStateHasItsEnd(t *testing.T) {
	var rows []row
	for _, state := range states {
		for _, b := range blows {
			if b.in != nil && !slices.Contains(b.in, state) {
				continue
			}
			t.Run(string(state)+"/"+b.name, func(t *testing.T) {
				in(t, func(t *testing.T, w *world) { rows = append(rows, struck(t, w, state, b)) })
			})
		}
	}
	exists(t, rows)
	text := document(rows)
	path := filepath.Join("..", "..", "docs", "faults.md")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != text {
		t.Errorf("docs/faults.md is not what this test saw (%v); write it: go test ./actors/launches -run Faults -update", err)
	}
	seen := strings.Split(text, "\n")
	for i, line := range strings.Split(string(have), "\n") {
		if i >= len(seen) || seen[i] != line {
			t.Fatalf("line %d is\n%s\nand was seen as\n%s", i+1, line, strings.Join(seen[min(i, len(seen)):min(i+1, len(seen))], ""))
		}
	}
}

func struck(t *testing.T, w *world, state messages.LeaseState, b blow) row {
	s := &stage{world: w, holds: map[string]chan struct{}{}, began: b.began}
	svc, stop := s.daemonOn(t, s)
	launch := s.reach(t, svc, state)
	before := s.stored(t, launch)
	if before.State != state {
		t.Fatalf("the blow falls in %s, want %s", before.State, state)
	}
	if b.down {
		asked, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := svc.Close(asked); err != nil {
			t.Error(err)
		}
		s.release() // what was held was not waited for
		synctest.Wait()
	}
	if b.strike == nil { // the daemon itself: what it had in hand is gone, its units end with it (BindsTo)
		stop()
		s.release()
		s.world.mu.Lock()
		for id := range s.active {
			s.active[id] = false
		}
		s.world.mu.Unlock()
		svc, stop = s.daemonOn(t, s)
	} else {
		b.strike(t, svc, s, launch)
		s.release()
		if b.proven && state == messages.LeaseRedeeming {
			if _, err := svc.Receipt(t.Context(), messages.Authority{Connection: before.Connection, Launch: launch, Lease: before.ID}, "nonce-1"); err != nil {
				t.Error(err)
			}
		}
	}
	time.Sleep(time.Minute) // virtual
	s.setBus(nil)
	time.Sleep(time.Minute)
	s.world.mu.Lock()
	s.alive[launch] = false // survivors die in the end
	s.world.mu.Unlock()
	time.Sleep(time.Minute)
	l, err := svc.Get(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	r := row{state: string(state), fault: b.name, way: way(before, l), told: strings.TrimSpace(l.Reason), shown: b.shown[""]}
	if special, ok := b.shown[state]; ok {
		r.shown = special
	}
	switch {
	case lease.Final(l.State):
		r.end = string(l.State)
		if l.Code != "" {
			r.end += " (" + l.Code + ")"
		}
	case l.State == before.State, l.State == messages.LeaseRunning:
		r.end, r.told = "goes on", "nothing"
		if _, err := svc.Stop(t.Context(), launch); err != nil {
			t.Fatal(err)
		}
		until(t, svc, launch, messages.LeaseEnded)
	default:
		t.Errorf("it hangs in %s", l.State)
	}
	stop()
	nothingLeft(t, w, launch)
	return r
}

func (s *stage) stored(t *testing.T, launch string) messages.Lease {
	t.Helper()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.leases[launch]
}

// way is through which states it went. What is done again is shown once: a stop
// that overtakes the start, and what a daemon takes up that another had begun,
// which depends on how far that one came.
func way(before, after messages.Lease) string {
	var out []string
	for _, step := range after.History[len(before.History):] {
		if again := slices.Index(out, string(step.State)); again >= 0 {
			out = out[:again]
		}
		out = append(out, string(step.State))
	}
	return strings.Join(out, " → ")
}

func nothingLeft(t *testing.T, w *world, launch string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active[launch] || len(w.folders) > 0 {
		t.Errorf("left: unit %v, folders %v", w.active[launch], w.folders)
	}
	if slices.Contains(w.log, "REMOVED UNDER A LIVE PROCESS") {
		t.Error("removed under a live process")
	}
	if l := w.leases[launch]; l.Connection != "" && w.revoked == 0 {
		t.Error("the connection was not revoked")
	}
	starts := 0
	for _, what := range w.log {
		if what == "started" {
			starts++
		}
	}
	if starts > 1 {
		t.Errorf("started %d times", starts)
	}
}

// exists sees that the tests that the document names are there.
func exists(t *testing.T, rows []row) {
	t.Helper()
	named := map[string]bool{}
	for _, r := range rows {
		named[r.shown] = true
	}
	for name := range named {
		if out, err := exec.Command("grep", "-rqE", "^func "+name+`\(`, "--include=*_test.go", "../..").CombinedOutput(); err != nil {
			t.Errorf("no test %q: %v %s", name, err, out)
		}
	}
}

func document(rows []row) string {
	var b strings.Builder
	b.WriteString(`# Faults of a launch

Generated by ` + "`go test ./actors/launches -run Faults -update`" + ` from the lease's state table, and compared with it by each
test run: every fault, at every state in which it can strike, was made to happen to the launch's actors in virtual
time, and this is what came of it. What a killed process leaves behind is killed with its control group; the overlay
is deleted when nobody is alive any more; a renewed credential goes back first. The last column names the test that
shows it with real processes, or the one that shows the rule behind it.

| state | fault | then | ends as | the owner reads | also shown by |
| --- | --- | --- | --- | --- | --- |
`)
	for _, r := range rows {
		told := r.told
		if told == "" {
			told = "the end, without a reason"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.state, r.fault, r.way, r.end, told, "`"+r.shown+"`")
	}
	return b.String()
}
