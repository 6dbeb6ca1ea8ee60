package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/actors/launches/lease"
	"sophia/messages"
	"sophia/testkit/world"
)

// crash is one place to kill the daemon at.
type crash struct {
	name  string
	state messages.LeaseState               // that the lease is stored in then
	reach func() (launch string, held bool) // held: the state lasts until after is called
	after func()                            // lets go of what held it, when the daemon is dead
	want  messages.LeaseState
	code  string
}

// Kill -9 of the daemon at every state of a launch: it recovers by `sophia up`,
// the lease ends as the table says, and nothing is left of it.
func TestCrash_DaemonKilledAtEveryStateOfALaunch(t *testing.T) {
	h := open(t, "")
	escape, let := h.escape(), filepath.Join(h.Home, "let")
	for _, c := range []crash{
		{name: "proposed", state: messages.LeaseProposed, want: messages.LeaseRefused, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.atProposal(), false }},
		{name: "pending", state: messages.LeasePending, want: messages.LeaseRefused, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.propose("forever").Launch, true }},
		{name: "approved", state: messages.LeaseApproved, want: messages.LeaseRefused, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.atLogged(messages.LeaseApproved, h.propose("forever")), false }},
		{name: "verifying", state: messages.LeaseVerifying, want: messages.LeaseRefused, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.held("forever"), true },
			after: func() { h.write(h.gate, "") }},
		{name: "starting, systemd not asked", state: messages.LeaseStarting, want: messages.LeaseFailed, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) {
				id := h.held("forever")
				h.must(h.Manager.Freeze())
				h.write(h.gate, "")
				h.until(id, messages.LeaseStarting)
				return id, true
			},
			after: func() { h.must(h.Manager.Thaw()) }},
		{name: "starting, the unit runs", state: messages.LeaseStarting, want: messages.LeaseFailed, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.atUnit(h.propose("forever")), false }},
		{name: "redeeming", state: messages.LeaseRedeeming, want: messages.LeaseFailed, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.reach(messages.LeaseRedeeming, "forever"), true }},
		{name: "running", state: messages.LeaseRunning, want: messages.LeaseFailed, code: lease.CodeDaemonRestarted,
			reach: func() (string, bool) { return h.reach(messages.LeaseRunning, "session", "forever"), true }},
		{name: "stopping", state: messages.LeaseStopping, want: messages.LeaseEnded, code: "stopped_by_owner",
			reach: func() (string, bool) {
				id := h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let)
				h.stop(id)
				h.until(id, messages.LeaseStopping)
				return id, true
			},
			after: func() { h.write(let, "") }},
		{name: "quiescing", state: messages.LeaseQuiescing, want: messages.LeaseEnded, code: "stopped_by_owner",
			reach: func() (string, bool) {
				id := h.reach(messages.LeaseRunning, "session", "setsid:join:"+escape+";forever", "forever")
				h.eventually("nobody escaped", func() bool { return populated(escape) })
				h.stop(id)
				h.until(id, messages.LeaseQuiescing)
				return id, true
			},
			after: func() { h.must(os.WriteFile(filepath.Join(escape, "cgroup.kill"), []byte("1"), 0)) }},
		{name: "evidencing", state: messages.LeaseEvidencing, want: messages.LeaseEnded, code: "stopped_by_owner",
			reach: func() (string, bool) {
				l := h.propose("session", "forever")
				h.approve(l)
				h.until(l.Launch, messages.LeaseRunning)
				return h.atLoggedAfter(messages.LeaseEvidencing, l.Launch, func() { h.stop(l.Launch) }), false
			}},
	} {
		if h.run(c.name, func() { h.survives(c) }); t.Failed() {
			return // the house is not what the next one needs
		}
	}
}

// survives kills at the place and looks at what comes of it. A place that can't
// be held is tried again until it was hit.
func (h *house) survives(c crash) {
	const tries = 25
	for range tries {
		mark := h.remember()
		id, held := c.reach()
		if held {
			h.kill()
		}
		if c.after != nil {
			c.after()
		}
		h.up()
		if strings.Contains(h.log(), "lease not stored") {
			h.t.Errorf("the launch was taken up before the store could be written\n%s", h.log())
		}
		h.remembers(mark)
		h.nothingWaits()
		if id == "" {
			continue // killed before anything was stored
		}
		end := h.final(id)
		h.nothingOf(id)
		h.noAgents()
		if at := diedIn(end); at != c.state {
			if held {
				h.t.Fatalf("killed in %s, want %s: %v", at, c.state, states(end))
			}
			continue
		}
		if end.State != c.want || end.Code != c.code {
			h.t.Errorf("%s (%s: %s), want %s (%s); its way: %v", end.State, end.Code, end.Reason, c.want, c.code, states(end))
		}
		return
	}
	h.t.Fatalf("%s was not hit in %d tries", c.name, tries)
}

// The owner takes a harness of theirs out of config.toml while its agent runs
// and the daemon is down: the launch comes to its end all the same, and its
// folder, which may have the only copy of a login, stays and is told about.
func TestCrash_AHarnessThatIsNotConfiguredAnyMore(t *testing.T) {
	h := open(t, "")
	id := h.reach(messages.LeaseRunning, "session", "forever")
	h.kill()
	h.must(h.Configure(""))
	h.up()
	end := h.final(id)
	if end.State != messages.LeaseFailed || end.Code != lease.CodeHarnessUnknown || !strings.Contains(end.Reason, "fake") {
		t.Errorf("%s (%s: %s)", end.State, end.Code, end.Reason)
	}
	folder := filepath.Join(h.Dirs().Launches(), id)
	h.kill()
	h.up()
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("its folder after another start: %v", err)
	}
	h.noAgents()
}

// diedIn is the state that the first recovery found, the last one if there was
// none.
func diedIn(l messages.Lease) messages.LeaseState {
	i := slices.IndexFunc(l.History, func(s messages.LeaseStep) bool { return s.Why == lease.CodeDaemonRestarted })
	if i < 1 {
		return l.State
	}
	return l.History[i-1].State
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// held starts a launch that stays in verifying until the gate is there again:
// the harness's version witness waits for it.
func (h *house) held(steps ...string) string {
	h.t.Helper()
	// A proposal witnesses the harness too, once a daemon; what is witnessed
	// ahead, while the owner reads, waits for the gate.
	first := h.propose(steps...)
	h.stop(first.Launch)
	h.final(first.Launch)
	h.letGo()
	h.must(os.Remove(h.gate))
	l := h.propose(steps...)
	h.approve(l)
	h.until(l.Launch, messages.LeaseVerifying)
	return l.Launch
}

// letGo has the daemon give up the harness that it still holds, verified, for the
// next launch.
func (h *house) letGo() {
	h.t.Helper()
	tree := filepath.Dir(h.adopted("fake").Identity.Path)
	mode, err := os.Stat(tree)
	h.must(err)
	h.must(os.Chmod(tree, 0o700))
	stray := filepath.Join(tree, "stray")
	h.write(stray, "")
	h.eventually("the harness stays held", func() bool {
		h.must(unix.Kill(h.pid, unix.SIGIO)) // as the kernel does: look whether it is as it was
		return !slices.ContainsFunc(opened(h.pid), func(path string) bool { return filepath.Dir(path) == tree })
	})
	h.must(os.Remove(stray))
	h.must(os.Chmod(tree, mode.Mode()))
}

// reach starts a launch and waits for a state that lasts.
func (h *house) reach(state messages.LeaseState, steps ...string) string {
	h.t.Helper()
	l := h.start(steps...)
	h.until(l.Launch, state)
	return l.Launch
}

func (h *house) stop(launch string) {
	h.t.Helper()
	if _, err := h.api.StopLaunch(h.ctx(), launch); err != nil {
		h.t.Fatal(err)
	}
}

// escape is a control group beside all units, for processes that flee.
func (h *house) escape() string {
	dir := filepath.Join(h.Manager.GroupDir, "escape")
	h.must(os.Mkdir(dir, 0o755))
	return dir
}

func populated(group string) bool {
	b, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// shoot returns a function that kills the daemon at once.
func (h *house) shoot() func() {
	fd, err := unix.PidfdOpen(h.pid, 0)
	h.must(err)
	return func() {
		err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		unix.Close(fd)
		h.must(err)
		h.must(world.Gone(h.ctx(), h.pid))
		h.Tray.Clear()
	}
}

// slowly makes each sync of the daemon take long, until the daemon is dead or
// done: what is between two of them is long enough to be seen from outside, on any
// machine.
func (h *house) slowly() (done func()) {
	const calls = "msync,fdatasync,fsync"
	cmd := exec.Command("strace", "-f", "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+calls+":delay_enter=30000", "-p", strconv.Itoa(h.pid))
	said, err := cmd.StderrPipe()
	h.must(err)
	h.must(cmd.Start())
	lines := bufio.NewReader(said)
	for line := ""; !strings.Contains(line, "attached"); {
		if line, err = lines.ReadString('\n'); err != nil {
			h.t.Fatalf("strace: %v: %s", err, line)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait() // it ends with the daemon
	}()
	return func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // ended already
		<-ended
	}
}

// atProposal kills the daemon while a proposal is under way, as soon as the
// stored lease can be read. The launch is "" when that never was.
func (h *house) atProposal() (launch string) {
	h.slowly()
	shoot := h.shoot()
	known := map[string]bool{}
	for _, l := range h.launches() {
		known[l.Launch] = true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.api.Propose(h.ctx(), h.workspace, startRequest("Seat_x", "forever")) // it is cut off
	}()
	h.spin(func() bool {
		for _, l := range h.launches() {
			if !known[l.Launch] {
				launch = l.Launch
				return true
			}
		}
		return false
	})
	shoot()
	<-done
	return launch
}

func (h *house) launches() []messages.Lease {
	page, err := h.api.Launches(h.ctx())
	h.must(err)
	return page.Items
}

// atLogged approves and kills the daemon as soon as its log has the state.
func (h *house) atLogged(state messages.LeaseState, l messages.Lease) string {
	return h.atLoggedAfter(state, l.Launch, func() { h.approve(l) })
}

func (h *house) atLoggedAfter(state messages.LeaseState, launch string, do func()) string {
	h.slowly()
	shoot := h.shoot()
	log, err := os.Open(h.Dirs().Log())
	h.must(err)
	defer log.Close()
	_, err = log.Seek(0, 2)
	h.must(err)
	hit := make(chan struct{})
	go func() {
		defer close(hit)
		var text []byte
		buf := make([]byte, 4096)
		h.spin(func() bool {
			n, _ := log.Read(buf) // the end of the file, mostly
			text = append(text, buf[:n]...)
			return strings.Contains(string(text), "launch="+launch+" state="+string(state))
		})
		shoot()
	}()
	do()
	<-hit
	return launch
}

// spin looks without a pause: what is waited for is soon over.
func (h *house) spin(is func() bool) {
	ctx := h.ctx()
	for !is() {
		if ctx.Err() != nil {
			h.t.Error("it never came")
			return
		}
	}
}

// atUnit kills the daemon in starting: what it has asked systemd for is never
// stored.
func (h *house) atUnit(l messages.Lease) string {
	h.frozenAtUnit(l)
	h.kill()
	return l.Launch
}

// frozenAtUnit approves, stops the daemon in its tracks as soon as the launch's
// unit has a control group, and returns when the harness runs.
func (h *house) frozenAtUnit(l messages.Lease) {
	pid := h.pid
	group := h.unitGroup(l.Launch)
	frozen := make(chan struct{})
	go func() {
		defer close(frozen)
		h.spin(func() bool { _, err := os.Stat(group); return err == nil })
		h.must(unix.Kill(pid, unix.SIGSTOP))
	}()
	if err := h.Tray.Answer(h.ctx(), "("+l.Plan.Seat+")"); err != nil {
		h.t.Fatal(err)
	}
	<-frozen
	h.reads(filepath.Join(h.Dirs().Launches(), l.Launch, "report.json"), `"running"`)
}

// thaw lets a daemon go on that frozenAtUnit stopped. One that was told to end
// meanwhile ends.
func (h *house) thaw() {
	if err := unix.Kill(h.pid, unix.SIGCONT); err != nil && err != unix.ESRCH {
		h.t.Error(err)
	}
}

// unitGroup is the folder of a launch's control group.
func (h *house) unitGroup(launch string) string {
	dir := filepath.Dir(h.groupOf(h.pid))
	return filepath.Join(dir, "sophia-launch-"+launch+".service")
}

// groupOf is the folder of a process's control group in the v2 tree.
func (h *house) groupOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	h.must(err)
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(strings.TrimSuffix(h.Manager.GroupDir, h.Manager.Group), path)
		}
	}
	h.t.Fatalf("process %d is in no group of the v2 tree: %s", pid, b)
	return ""
}
