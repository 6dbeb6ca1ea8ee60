package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/testkit/world"
)

// A launch that ends because the owner stops its unit, or the daemon, in order:
// it has ended, not failed, and nothing of it waits for the next daemon.
func TestStopped_TheUnitOrTheDaemonByTheOwner(t *testing.T) {
	h := open(t, "")
	let := filepath.Join(h.Home, "let-unit")
	for _, c := range []struct {
		state messages.LeaseState
		reach func() string
		code  string
		let   func()
	}{
		{messages.LeaseStarting, func() string { l := h.propose("forever"); h.frozenAtUnit(l); return l.Launch }, "unit_stopped", h.thaw},
		{messages.LeaseRedeeming, func() string { return h.reach(messages.LeaseRedeeming, "forever") }, "unit_stopped", nil},
		{messages.LeaseRunning, func() string { return h.reach(messages.LeaseRunning, "session", "forever") }, "unit_stopped", nil},
		{messages.LeaseStopping, func() string { return h.stopping(let) }, "stopped_by_owner", func() { h.write(let, "") }},
	} {
		h.run("systemctl stop/"+string(c.state), func() {
			id := c.reach()
			stop := h.Manager.Command("systemctl", "--user", "stop", filepath.Base(h.unitGroup(id)))
			h.must(stop.Start())
			if c.state == messages.LeaseStarting { // only then does the daemon look again
				h.must(stop.Wait())
			}
			if c.let != nil {
				c.let()
			}
			if c.state != messages.LeaseStarting {
				h.must(stop.Wait())
			}
			if end := h.final(id); end.State != messages.LeaseEnded || end.Code != c.code {
				h.t.Errorf("%s (%s: %s), want ended (%s); its way: %v", end.State, end.Code, end.Reason, c.code, states(end))
			}
			h.nothingOf(id)
			h.noAgents()
		})
	}
	h.stoppedInOrder("sophia down", func() { h.must(h.Sophia(h.ctx(), nil, "down")) }, h.up)
	h.must(h.Sophia(h.ctx(), nil, "down"))
	s := h.foreground("--foreground")
	h.stoppedInOrder("Ctrl-C", func() {
		h.must(s.Type("\x03"))
		if err := s.Wait(); err != nil {
			h.t.Errorf("%v\n%s", err, s.Text())
		}
	}, func() { s = h.foreground("--foreground") })
	h.run("Ctrl-C twice", func() { // who does not want to wait need not
		id := h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let+"-twice")
		h.must(s.Type("\x03"))
		h.must(s.Shows(h.ctx(), "Ctrl-C again"))
		h.must(s.Type("\x03"))
		h.must(world.Gone(h.ctx(), s.Cmd.Process.Pid))
		if err := unix.Kill(h.pid, 0); err != nil {
			h.t.Errorf("the daemon did not wait for its agent: %v", err)
		}
		h.write(let+"-twice", "")
		h.must(world.Gone(h.ctx(), h.pid))
		h.Tray.Clear()
		h.nothingOf(id)
	})
	_ = s.Close()
}

// stopping is a launch that is being stopped, until there is a file at let.
func (h *house) stopping(let string) (launch string) {
	h.t.Helper()
	h.must(os.RemoveAll(let))
	launch = h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let)
	h.stop(launch)
	h.until(launch, messages.LeaseStopping)
	return launch
}

// stops counts how often a daemon of this house was told to stop.
func (h *house) stops() int {
	b, err := os.ReadFile(h.Dirs().Log())
	h.must(err)
	return strings.Count(string(b), "msg=stopping")
}

// beingStopped waits until the stop has reached the daemon: it says so, its SIGTERM
// waits for it to be thawed, or systemd stops its agents before it.
func (h *house) beingStopped(before int) {
	h.eventually("nobody stops the daemon", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
		if err != nil || h.stops() > before {
			return true
		}
		var pending uint64
		if _, after, ok := strings.Cut(string(status), "ShdPnd:"); ok {
			fmt.Sscanf(after, "%x", &pending)
		}
		jobs, _ := h.Manager.Command("systemctl", "--user", "list-jobs", "--no-legend").Output() // asked again
		return pending&(1<<(unix.SIGTERM-1)) != 0 || strings.Contains(string(jobs), "sophia-daemon.service")
	})
}

// stoppedInOrder stops the daemon in one way while a launch is in each state in
// which that takes something.
func (h *house) stoppedInOrder(way string, stop, start func()) {
	escape, let := filepath.Join(h.Manager.GroupDir, "escape"), filepath.Join(h.Home, "let")
	h.must(os.MkdirAll(escape, 0o755))
	for _, c := range []struct {
		state messages.LeaseState
		reach func() (launch string)
		end   messages.LeaseState
		codes []string
		let   func() // lets go of what holds up the end
	}{
		{state: messages.LeasePending, end: messages.LeaseRefused, codes: []string{"approval_withdrawn"},
			reach: func() string { return h.propose("forever").Launch }},
		{state: messages.LeaseVerifying, end: messages.LeaseRefused, codes: []string{"daemon_stopped"},
			reach: func() string { return h.held("forever") }},
		// systemd stops the unit before the daemon that it is bound to.
		{state: messages.LeaseStarting, end: messages.LeaseEnded, codes: []string{"daemon_stopped", "unit_stopped"},
			reach: func() string {
				l := h.propose("forever")
				h.frozenAtUnit(l)
				return l.Launch
			},
			let: h.thaw},
		{state: messages.LeaseRedeeming, end: messages.LeaseEnded, codes: []string{"daemon_stopped", "unit_stopped"},
			reach: func() string { return h.reach(messages.LeaseRedeeming, "forever") }},
		{state: messages.LeaseRunning, end: messages.LeaseEnded, codes: []string{"daemon_stopped", "unit_stopped"},
			reach: func() string { return h.reach(messages.LeaseRunning, "session", "forever") }},
		{state: messages.LeaseStopping, end: messages.LeaseEnded, codes: []string{"stopped_by_owner"},
			reach: func() string { return h.stopping(let) },
			let:   func() { h.write(let, "") }},
		{state: messages.LeaseQuiescing, end: messages.LeaseEnded, codes: []string{"stopped_by_owner"},
			reach: func() string {
				id := h.reach(messages.LeaseRunning, "session", "setsid:join:"+escape+";forever", "forever")
				h.eventually("nobody escaped", func() bool { return populated(escape) })
				h.stop(id)
				h.until(id, messages.LeaseQuiescing)
				return id
			},
			let: func() { h.must(os.WriteFile(filepath.Join(escape, "cgroup.kill"), []byte("1"), 0)) }},
	} {
		h.run(way+"/"+string(c.state), func() {
			id, before := c.reach(), h.stops()
			done := make(chan struct{})
			go func() {
				defer close(done)
				stop()
			}()
			if c.let != nil {
				h.beingStopped(before)
				c.let()
			}
			<-done
			h.Tray.Clear()
			h.write(h.gate, "")
			h.nothingOf(id)
			start()
			h.nothingWaits()
			if end := h.final(id); end.State != c.end || !slices.Contains(c.codes, end.Code) {
				h.t.Errorf("%s (%s: %s), want %s %v; its way: %v", end.State, end.Code, end.Reason, c.end, c.codes, states(end))
			}
			h.noAgents()
		})
	}
}
