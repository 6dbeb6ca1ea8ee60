package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/launches/lease"
	"sophia/hostd/ownerapi"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/fakeharness"
	"sophia/testkit/programs"
	"sophia/testkit/world"
)

// patience bounds each thing that is waited for.
const patience = 2 * time.Minute

// shipped are the programs of a release.
var shipped = []string{"sophia", "sophiad", "sophia-host", "sophia-wrapper", "sophia-tray", "sophia-isolate", "sophia-compile"}

// house is a world that a test lives in.
type house struct {
	*world.World
	t         *testing.T
	api       *ownerapi.Client
	workspace string // its id
	dir       string // its folder
	gate      string // while this file is missing, the fake harness's version witness waits
	pid       int    // of the daemon
	mcp       string // URL of the endpoint
	seats     int
}

// binaries is the folder of the programs, built once. They are not to be
// changed; ownBinaries gives a test copies of its own.
func binaries(t *testing.T) (dir string) {
	for _, name := range shipped {
		dir = filepath.Dir(programs.Build(t, name))
	}
	return dir
}

// open makes a house with a running daemon. The fake harness is an owner's own,
// declared in config.toml; config is added to that.
func open(t *testing.T, config string) *house {
	t.Helper()
	h := build(t, binaries(t))
	h.furnish(config)
	return h
}

// furnish starts all that a house has.
func (h *house) furnish(config string) {
	h.t.Helper()
	h.configure(config)
	if err := h.StartManager(h.ctx()); err != nil {
		if problem.CodeOf(err) == "user_manager_unavailable" {
			h.t.Skip("skipped: ", err)
		}
		h.t.Fatal(err)
	}
	h.up()
	h.adopt("fake", fakeharness.Build(h.t))
	h.must(h.StartTray(context.Background()))
}

// build makes a house in which nothing runs yet.
func build(t *testing.T, bin string) *house {
	t.Helper()
	w, err := world.New(bin, "/", "sophia-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{World: w, t: t, dir: filepath.Join(w.Home, "work"), gate: filepath.Join(w.Home, "gate")}
	t.Cleanup(h.close)
	w.Dir = h.dir
	h.write(filepath.Join(h.dir, "README.md"), "# A project\n\nIt has a needle in it.\n")
	h.write(h.gate, "")
	return h
}

// configure writes config.toml with the fake harness in it.
func (h *house) configure(more string) {
	h.t.Helper()
	if err := h.Configure(fmt.Sprintf(`
[harness.fake]
name = "Fake"
version = %q
version_args = ["wait:%s", "print:%s"]
home_var = "FAKE_HOME"
home_dir = ".fake"
entry = "fake-harness"
sources = ["~/.fake"]
`, fakeharness.Version, h.gate, fakeharness.Version) + more); err != nil {
		h.t.Fatal(err)
	}
}

// ctx bounds one thing that is waited for.
func (h *house) ctx() context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("waited too long"))
	h.t.Cleanup(cancel)
	return ctx
}

func (h *house) write(path, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// up runs `sophia up`.
func (h *house) up() {
	h.t.Helper()
	r, err := h.Up(h.ctx(), h.dir)
	if err != nil {
		h.t.Fatalf("%v\n%s", err, h.log())
	}
	h.pid, h.mcp, h.workspace = r.Status.PID, r.Status.MCP, r.Workspace.ID
	if h.api, err = h.Client(); err != nil {
		h.t.Fatal(err)
	}
}

// adopt adopts a harness from its program.
func (h *house) adopt(id, path string) ownerapi.Harness {
	h.t.Helper()
	a, err := h.api.Adopt(h.ctx(), ownerapi.AdoptRequest{Harness: id, Path: path})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// propose asks for a launch of the fake harness that performs steps.
func (h *house) propose(steps ...string) messages.Lease {
	h.t.Helper()
	return h.proposeAs(ownerapi.StartRequest{Harness: "fake", Arguments: steps})
}

func startRequest(seat string, steps ...string) ownerapi.StartRequest {
	return ownerapi.StartRequest{Harness: "fake", Seat: seat, Arguments: steps}
}

// proposeAs asks for a launch. Its seat is its own, so that the tray's screen
// tells it from every other.
func (h *house) proposeAs(ask ownerapi.StartRequest) messages.Lease {
	h.t.Helper()
	h.seats++
	ask.Seat = fmt.Sprintf("Seat_%d", h.seats)
	l, err := h.api.Propose(h.ctx(), h.workspace, ask)
	if err != nil {
		h.t.Fatalf("%v\n%s", err, h.log())
	}
	return l
}

// approve is the owner's yes in the tray.
func (h *house) approve(l messages.Lease) {
	h.t.Helper()
	if err := h.Tray.Approve(h.ctx(), "("+l.Plan.Seat+")"); err != nil {
		h.t.Fatalf("%v\n%s", err, h.log())
	}
}

// start proposes and approves.
func (h *house) start(steps ...string) messages.Lease {
	h.t.Helper()
	l := h.propose(steps...)
	h.approve(l)
	return l
}

// until waits for one of the states. Any final state that is not among them
// fails the test.
func (h *house) until(launch string, want ...messages.LeaseState) messages.Lease {
	h.t.Helper()
	ctx := h.ctx()
	l, err := h.api.Launch(ctx, launch)
	for err == nil && !slices.Contains(want, l.State) && !lease.Final(l.State) {
		l, err = h.api.WaitLaunch(ctx, launch, l.State)
	}
	if err != nil {
		h.t.Fatalf("waiting for %v: %v; it is %s\n%s", want, err, l.State, h.log())
	}
	if !slices.Contains(want, l.State) {
		h.t.Fatalf("%s is %s (%s: %s), want %v; its way: %v\n%s", launch, l.State, l.Code, l.Reason, want, states(l), h.log())
	}
	return l
}

// final waits for the end of a launch, however it comes.
func (h *house) final(launch string) messages.Lease {
	h.t.Helper()
	return h.until(launch, messages.LeaseEnded, messages.LeaseFailed, messages.LeaseRefused, messages.LeaseDenied, messages.LeaseExpired)
}

func states(l messages.Lease) (out []messages.LeaseState) {
	for _, s := range l.History {
		out = append(out, s.State)
	}
	return out
}

// kill kills the daemon as nothing can prevent.
func (h *house) kill() {
	h.t.Helper()
	if err := world.Kill(h.ctx(), h.pid); err != nil {
		h.t.Fatal(err)
	}
	h.Tray.Clear()
}

// nothingOf fails the test when anything is left of a launch.
func (h *house) nothingOf(launch string) {
	h.t.Helper()
	if pids, err := world.ProcessesOf(launch); err != nil || len(pids) > 0 {
		for _, pid := range pids {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			h.t.Errorf("process %d of %s lives: %q", pid, launch, line)
		}
		if err != nil {
			h.t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(h.Dirs().Launches(), launch)); !errors.Is(err, fs.ErrNotExist) {
		h.t.Errorf("the folder of %s: %v, want it gone", launch, err)
	}
}

// eventually waits for something that nothing tells about.
func (h *house) eventually(what string, is func() bool) {
	h.t.Helper()
	ctx := h.ctx()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("%v: %s\n%s", context.Cause(ctx), what, h.log())
		}
	}
}

// reads waits until a file has words in it, and returns its text.
func (h *house) reads(path, words string) (text string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%s has not %q", path, words), func() bool {
		b, _ := os.ReadFile(path) // not there yet
		text = string(b)
		return strings.Contains(text, words)
	})
	return text
}

// log is the end of the daemon's log.
func (h *house) log() string {
	b, _ := os.ReadFile(h.Dirs().Log())
	return "sophiad.log: …" + string(b[max(0, len(b)-6000):])
}

// remember makes an acknowledged write, for which the owner need not be asked:
// it returns the connection that it minted.
func (h *house) remember() (connection string) {
	h.t.Helper()
	m, err := h.Mint(h.ctx(), "It is there", "--profile", "observer", "--scope", "acme")
	h.must(err)
	return m.Connection
}

// remembers fails the test unless an acknowledged write is there.
func (h *house) remembers(connection string) {
	h.t.Helper()
	page, err := h.api.Connections(h.ctx())
	h.must(err)
	if !slices.ContainsFunc(page.Items, func(c messages.ConnectionRow) bool { return c.Connection == connection }) {
		h.t.Errorf("the acknowledged connection %s is not there", connection)
	}
}

// nothingWaits fails the test when a request still waits for the owner.
func (h *house) nothingWaits() {
	h.t.Helper()
	open, err := h.api.Approvals(h.ctx())
	if err != nil || open.Total != 0 {
		h.t.Errorf("waiting for the owner: %+v, %v", open.Items, err)
	}
}

// noAgents fails the test when the manager runs an agent, or another daemon than
// the house's.
func (h *house) noAgents() {
	h.t.Helper()
	running, err := h.Running()
	if err != nil {
		h.t.Fatal(err)
	}
	for pid, line := range running {
		switch filepath.Base(strings.Fields(line)[0]) {
		case "sophiad":
			// A child of the daemon's has its name until it executes a program.
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if s, ok := peer.ParseStat(string(stat)); pid != h.pid && err == nil && !(ok && s.Parent == h.pid) {
				h.t.Errorf("another daemon runs: %d", pid)
			}
		case "sophia-host", "sophia-wrapper", "fake-harness", "codex", "claude":
			h.t.Errorf("process %d lives: %s", pid, line)
		}
	}
	if err := unix.Kill(h.pid, 0); err != nil {
		h.t.Errorf("the daemon: %v", err)
	}
}

// run is t.Run for a part of the test that goes on in the same house.
func (h *house) run(name string, f func()) {
	outer := h.t
	outer.Run(name, func(t *testing.T) {
		h.t = t
		defer func() { h.t = outer }()
		f()
	})
}

// close stops everything and looks at what is left: the store sound, no process
// but the manager's own.
func (h *house) close() {
	if h.Tray != nil {
		h.Tray.Close()
		h.Tray = nil
	}
	if h.Manager != nil && h.api != nil {
		h.audit()
	}
	keep := os.Getenv("SOPHIA_E2E_KEEP") != "" && h.t.Failed()
	if keep {
		h.t.Logf("kept: %s", h.Home)
	}
	if err := h.Close(keep); err != nil {
		h.t.Error(err)
	}
}

func (h *house) audit() {
	if err := h.Sophia(h.ctx(), nil, "down"); err != nil {
		h.t.Error(err)
	}
	r, err := h.VerifyStore()
	if err != nil || len(r.Problems) > 0 {
		h.t.Errorf("the store after all of it: %v, %q", err, r.Problems)
	}
	running, err := h.Running()
	if err != nil {
		h.t.Error(err)
	}
	for pid, line := range running {
		if !strings.Contains(line, "systemd") && !strings.HasPrefix(line, "dbus-daemon") && line != "(sd-pam)" {
			h.t.Errorf("process %d is left: %s", pid, line)
		}
	}
}
