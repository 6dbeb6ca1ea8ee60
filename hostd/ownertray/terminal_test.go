package ownertray_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"sophia/actors/approvals"
	"sophia/actors/supervise"
	"sophia/actors/trays"
	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/programs"
)

// memory is the approvals' store.
type memory struct {
	mu   sync.Mutex
	rows map[string]messages.ApprovalRow
}

func (m *memory) Put(_ context.Context, row messages.ApprovalRow) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[row.ID] = row
	return nil
}
func (m *memory) Open(context.Context) ([]messages.ApprovalRow, error) { return nil, nil }

// owner is a daemon's owner side: the real gate, trays and API.
type owner struct {
	*approvals.Gate
	home string
	dirs paths.Dirs
	key  *ownerkey.Key
	tray string // the program
	hub  *trays.Hub
	at   func(context.Context, peer.Terminal) error // whether a terminal is the owner's; nil: all are
}

func newOwner(t *testing.T) *owner {
	t.Helper()
	home, err := os.MkdirTemp("", "ot")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	dirs, err := paths.Resolve(func(name string) string { return map[string]string{"SOPHIA_HOME": home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	if err := dirs.Make(); err != nil {
		t.Fatal(err)
	}
	key, err := ownerkey.LoadOrCreate(dirs.OwnerKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(key.Close)
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	root, err := supervise.Start(e, "owner", supervise.Policy{},
		supervise.Spec{ID: "approvals", Tree: &supervise.TreeSpec{Policy: approvals.Policy()}},
		supervise.Spec{ID: "trays", Tree: &supervise.TreeSpec{Policy: trays.Policy()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Stop(context.Background()) })
	o := &owner{home: home, dirs: dirs, key: key, tray: programs.Build(t, "sophia-tray")}
	o.hub = trays.New(func() *supervise.Tree { return root.Sub("trays") }, func(ctx context.Context) ([]messages.ApprovalRequest, error) {
		return o.List(ctx)
	})
	o.Gate, err = approvals.New(t.Context(), func() *supervise.Tree { return root.Sub("approvals") },
		approvals.Config{Store: &memory{rows: map[string]messages.ApprovalRow{}}, Notify: func(e messages.TrayEvent) { o.hub.Publish(e) }})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// serve starts the owner API; the returned function ends it.
func (o *owner) serve(t *testing.T) (stop func()) {
	t.Helper()
	text, err := os.ReadFile(o.tray)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	server, err := ownerapi.New(ownerapi.Config{
		Owner:    o.key.Public().(ed25519.PublicKey),
		Presence: ownerapi.KernelPresence{SHA256: hex.EncodeToString(sum[:]), Terminal: o.at},
		Services: ownerapi.Services{Approvals: o.Gate, Trays: ownerapi.TraysFrom(o.hub.Subscribe)},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ownerapi.Listen(o.dirs.OwnerSocket())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// ask makes a request, and returns where its verdict comes and its code.
func (o *owner) ask(t *testing.T, entity string) (<-chan messages.ApprovalVerdict, messages.ApprovalRequest) {
	t.Helper()
	out := make(chan messages.ApprovalVerdict, 1)
	had, _ := o.List(t.Context())
	go func() {
		v, err := o.Request(context.Background(), messages.ApprovalRequest{
			Kind: messages.ApproveToolCall, Connection: "conn-1", Requester: "Claude", Title: "Remember a fact about " + entity,
			Tool: "sophia.remember_fact", Arguments: json.RawMessage(`{"entity":"` + entity + `"}`),
			Preview: []messages.Change{{Table: "facts", Key: entity, Before: json.RawMessage("null"), After: json.RawMessage(`{"value":42}`)}},
		})
		if err == nil {
			out <- v
		}
	}()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		if list, _ := o.List(t.Context()); len(list) > len(had) {
			return out, list[len(list)-1]
		}
	}
	t.Fatal("the request did not come to wait")
	return nil, messages.ApprovalRequest{}
}

// screen is a tray on a PTY, seen through a terminal emulator.
type screen struct {
	t       *testing.T
	file    *os.File
	cmd     *exec.Cmd
	mu      sync.Mutex
	shown   *vt.Emulator
	changed chan struct{}
}

func (o *owner) show(t *testing.T, args ...string) *screen {
	t.Helper()
	cmd := exec.Command(o.tray, append([]string{"--terminal"}, args...)...)
	cmd.Env = []string{"SOPHIA_HOME=" + o.home, "TERM=xterm-256color"}
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, file: file, cmd: cmd, shown: vt.NewEmulator(100, 30), changed: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := file.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			select {
			case s.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		file.Close()
		<-read
	})
	return s
}

// see waits until the screen shows all of the texts.
func (s *screen) see(texts ...string) string {
	s.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		shown := s.shown.String()
		s.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				missing = text
			}
		}
		if missing == "" {
			return shown
		}
		select {
		case <-s.changed:
		case <-timeout:
			s.t.Fatalf("%q is not shown:\n%s", missing, shown)
		}
	}
}

func (s *screen) enter(text string) {
	s.t.Helper()
	if _, err := s.file.WriteString(text + "\r"); err != nil {
		s.t.Fatal(err)
	}
}

func TestTerminalTray_ApprovesAsAPersonWould(t *testing.T) {
	o := newOwner(t)
	o.serve(t)
	got, r := o.ask(t, "acme") // before the tray is there
	s := o.show(t)
	s.see("1 request waits for you", "Remember a fact about acme", "sophia.remember_fact", `+   "value": 42`, "Type "+r.Code+" and Enter to approve")
	s.enter("yes")
	s.see(`"yes" is not the code of ` + r.ID)
	s.enter(r.Code)
	v := <-got
	if v.Outcome != messages.OutcomeApproved || !strings.Contains(v.By, "terminal tray on /dev/pts/") {
		t.Errorf("%+v", v)
	}
	s.see("Approved: "+r.ID, "nothing waits for you")

	got, r = o.ask(t, "globex") // live
	s.see("Remember a fact about globex")
	s.enter("d not this one")
	if v := <-got; v.Outcome != messages.OutcomeDenied || v.Reason != "not this one" {
		t.Errorf("%+v", v)
	}
	s.see("Denied: " + r.ID)
	s.enter("q")
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("quitting: %v", err)
	}
}

func TestTerminalTray_TwoTraysFirstAnswerWins(t *testing.T) {
	o := newOwner(t)
	o.serve(t)
	a, b := o.show(t), o.show(t)
	a.see("nothing waits for you")
	b.see("nothing waits for you")
	got, r := o.ask(t, "acme")
	a.see(r.Code)
	b.see(r.Code)
	a.enter(r.Code)
	<-got
	b.see("approved by terminal tray on /dev/pts/", "nothing waits for you")
}

func TestTerminalTray_ConnectsAgainAndShowsWhatItMissed(t *testing.T) {
	o := newOwner(t)
	stop := o.serve(t)
	s := o.show(t)
	s.see("nothing waits for you")
	stop()
	s.see("not connected, trying again")
	got, r := o.ask(t, "acme")
	o.serve(t)
	s.see(r.Code)
	s.enter(r.Code)
	if v := <-got; v.Outcome != messages.OutcomeApproved {
		t.Errorf("%+v", v)
	}
}

func TestTerminalTray_AnotherProgramIsNone(t *testing.T) {
	o := newOwner(t)
	o.serve(t)
	// One byte more, and it is another program.
	text, err := os.ReadFile(o.tray)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "sophia-tray")
	if err := os.WriteFile(changed, append(text, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	o.tray = changed
	s := o.show(t)
	s.see("(approval_needs_presence)")
	err = s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d (%v), want 3", code, err)
	}
}

func TestTerminalTray_NeedsATerminal(t *testing.T) {
	o := newOwner(t)
	o.serve(t)
	_, r := o.ask(t, "acme")
	cmd := exec.Command(o.tray, "--terminal")
	cmd.Env = []string{"SOPHIA_HOME=" + o.home}
	cmd.Stdin = strings.NewReader(r.Code + "\r")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(text), "needs a terminal") {
		t.Errorf("%v: %s", err, text)
	}
	// And by hand, with the key that every process of the owner can read.
	client, err := ownerapi.NewClient(o.dirs.OwnerSocket(), o.key)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Tray(t.Context(), "script", func() error { return nil }); problem.CodeOf(err) != "approval_needs_presence" {
		t.Errorf("a script with the owner's key: %v", err)
	}
}

// The daemon sees the terminal that the tray is on, each time that it connects,
// and one that is not the owner's ends the tray with the reason.
func TestTerminal_TheDaemonLooksAtIt(t *testing.T) {
	o := newOwner(t)
	looked := make(chan peer.Terminal, 2)
	o.at = func(_ context.Context, at peer.Terminal) error { looked <- at; return nil }
	stop := o.serve(t)
	s := o.show(t)
	s.see("nothing waits for you")
	first := <-looked
	if first.Leader != s.cmd.Process.Pid || first.Device == 0 {
		t.Errorf("the tray %d is seen at %+v", s.cmd.Process.Pid, first)
	}
	stop()
	s.see("not connected")
	o.at = func(_ context.Context, at peer.Terminal) error {
		looked <- at
		return problem.New("tray_not_at_login", "the terminal is of no login of yours").WithHint("Run it where you logged in.")
	}
	o.serve(t)
	s.see("Run it where you logged in.")
	if again := <-looked; again != first {
		t.Errorf("then at %+v, first %+v", again, first)
	}
}
