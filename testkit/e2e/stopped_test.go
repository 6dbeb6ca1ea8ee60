package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sophia/messages"
)

// A launch that ends because the owner stops its unit, or the daemon, in order:
// it has ended, not failed, and nothing of it waits for the next daemon.
func TestStopped_TheUnitOrTheDaemonByTheOwner(t *testing.T) {
	h := open(t, "")
	for name, steps := range map[messages.LeaseState][]string{messages.LeaseRedeeming: {"forever"}, messages.LeaseRunning: {"session", "forever"}} {
		h.run("systemctl stop/"+string(name), func() {
			id := h.reach(name, steps...)
			if out, err := h.Manager.Command("systemctl", "--user", "stop", filepath.Base(h.unitGroup(id))).CombinedOutput(); err != nil {
				h.t.Fatalf("%v\n%s", err, out)
			}
			if end := h.final(id); end.State != messages.LeaseEnded || end.Code != "unit_stopped" {
				h.t.Errorf("%s (%s: %s), want ended (unit_stopped)", end.State, end.Code, end.Reason)
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
	_ = s.Close()
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
			reach: func() string {
				h.must(os.RemoveAll(let))
				id := h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let)
				h.stop(id)
				h.until(id, messages.LeaseStopping)
				return id
			},
			let: func() { h.write(let, "") }},
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
			id := c.reach()
			done := make(chan struct{})
			go func() {
				defer close(done)
				stop()
			}()
			if c.let != nil {
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
