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

// The rows of docs/faults.md about real processes and a real bus that no other
// test shows: the parts of a launch killed before its credential is proven and
// while it stops, and D-Bus lost at each state that needs it.
func TestFaults_AtEachStateOfARealLaunch(t *testing.T) {
	h := open(t, "")
	for _, c := range []struct{ program, code string }{{"sophia-host", "host_lost"}, {"fake-harness", "harness_failed"}} {
		h.run("starting/"+c.program, func() {
			l := h.propose("forever")
			h.frozenAtUnit(l)
			h.must(world.Kill(h.ctx(), h.process(c.program)))
			h.must(unix.Kill(h.pid, unix.SIGCONT))
			if c.program == "fake-harness" {
				h.until(l.Launch, messages.LeaseRedeeming)
				<-h.view(l.Launch, "") // with nobody there the host would keep what a fast failure said
			}
			end := h.final(l.Launch)
			if end.State != messages.LeaseFailed || end.Code != c.code || end.History[4].State != messages.LeaseStarting {
				h.t.Errorf("%s (%s: %s), want failed (%s); its way: %v", end.State, end.Code, end.Reason, c.code, states(end))
			}
			h.nothingOf(l.Launch)
			h.noAgents()
		})
		h.run("redeeming/"+c.program, func() {
			pid := filepath.Join(h.Home, "pid-"+c.program)
			id := h.reach(messages.LeaseRedeeming, "print:hello", "pid:"+pid, "forever")
			h.eventually("the harness did not start", func() bool { _, err := os.Stat(pid); return err == nil })
			seen := h.view(id, "") // with nobody there the host would keep what a fast failure said
			h.must(world.Kill(h.ctx(), h.process(c.program)))
			<-seen
			if end := h.final(id); end.State != messages.LeaseFailed || end.Code != c.code {
				h.t.Errorf("%s (%s: %s), want failed (%s)", end.State, end.Code, end.Reason, c.code)
			}
			h.nothingOf(id)
			h.noAgents()
		})
	}
	h.run("redeeming/sophia-wrapper", func() {
		const tries = 25
		for n := range tries {
			let := filepath.Join(h.Home, fmt.Sprintf("let-again-%d", n))
			id := h.reach(messages.LeaseRedeeming, "child:session", "wait:"+let, "session", "forever")
			h.killOnceRedeemed(id)
			h.write(let, "") // the harness starts its wrapper again
			// Where it had proven its bearer by then, the launch runs on with the next
			// wrapper, or ends because that was too late for this one.
			proven := h.until(id, messages.LeaseRunning, messages.LeaseFailed).State == messages.LeaseRunning
			if proven {
				_, _ = h.api.StopLaunch(h.ctx(), id) // it may be ending already
			}
			end := h.final(id)
			h.nothingOf(id)
			h.noAgents()
			if proven || slices.Contains(states(end), messages.LeaseRunning) {
				continue
			}
			if end.State != messages.LeaseFailed || end.Code != "wrapper_lost" {
				h.t.Errorf("%s (%s: %s), want failed (wrapper_lost); its way: %v", end.State, end.Code, end.Reason, states(end))
			}
			if c := h.connectionsOf(id); len(c) != 1 || c[0].Revoked == nil {
				h.t.Errorf("its connection: %+v", c)
			}
			return
		}
		h.t.Fatalf("not hit in %d tries", tries)
	})
	for _, program := range []string{"sophia-host", "fake-harness", "sophia-wrapper"} {
		h.run("stopping/"+program, func() {
			let := filepath.Join(h.Home, "let-"+program)
			id := h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let)
			victim := h.process(program)
			h.stop(id)
			h.until(id, messages.LeaseStopping)
			// systemd's SIGTERM ends the wrapper by itself, mostly before this.
			if err := world.Kill(h.ctx(), victim); err != nil && program != "sophia-wrapper" {
				h.t.Fatal(err)
			}
			h.write(let, "")
			h.endsAsAsked(id)
		})
	}
	h.run("the bus/starting", func() {
		id := h.held("session", "forever")
		h.must(h.Manager.StopBus(h.ctx()))
		h.write(h.gate, "")
		h.until(id, messages.LeaseRunning) // by systemd's own socket
		h.must(h.Manager.StartBus(h.ctx()))
		h.stop(id)
		h.endsAsAsked(id)
	})
	h.run("the bus/redeeming", func() {
		let := filepath.Join(h.Home, "let-redeem")
		id := h.reach(messages.LeaseRedeeming, "wait:"+let, "session", "forever")
		h.must(h.Manager.StopBus(h.ctx()))
		h.write(let, "")
		h.until(id, messages.LeaseRunning)
		h.must(h.Manager.StartBus(h.ctx()))
		h.stop(id)
		h.endsAsAsked(id)
	})
	h.run("the bus/running", func() {
		id := h.reach(messages.LeaseRunning, "session", "forever")
		h.must(h.Manager.StopBus(h.ctx()))
		h.must(h.Manager.StartBus(h.ctx()))
		h.must(h.Manager.Reexec(h.ctx())) // and every connection at once
		h.until(id, messages.LeaseRunning)
		// It is watched still: the end of the agent is noticed.
		seen := h.view(id, "")
		h.must(world.Kill(h.ctx(), h.process("fake-harness")))
		<-seen
		if end := h.final(id); end.State != messages.LeaseFailed || end.Code != "harness_failed" {
			h.t.Errorf("%s (%s: %s)", end.State, end.Code, end.Reason)
		}
		h.nothingOf(id)
	})
	h.run("the bus/stopping", func() {
		let := filepath.Join(h.Home, "let-bus")
		id := h.reach(messages.LeaseRunning, "ignore-term", "session", "wait:"+let)
		h.stop(id)
		h.until(id, messages.LeaseStopping)
		h.must(h.Manager.StopBus(h.ctx()))
		h.write(let, "")
		h.endsAsAsked(id)
		h.must(h.Manager.StartBus(h.ctx()))
	})
}

// killOnceRedeemed kills the launch's wrapper as soon as its bearer is minted.
func (h *house) killOnceRedeemed(launch string) {
	h.t.Helper()
	wrapper := 0
	h.eventually("no wrapper runs", func() bool {
		running, err := h.Running()
		h.must(err)
		for pid, line := range running {
			if filepath.Base(strings.Fields(line)[0]) == "sophia-wrapper" {
				wrapper = pid
			}
		}
		return wrapper != 0
	})
	defer h.slowly()()
	h.spin(func() bool { return len(h.connectionsOf(launch)) > 0 })
	if err := unix.Kill(wrapper, unix.SIGKILL); err != unix.ESRCH { // it has done its work: not hit
		h.must(err)
	}
}

// endsAsAsked waits for the end that the owner asked for, of which nothing is
// left.
func (h *house) endsAsAsked(launch string) {
	h.t.Helper()
	if end := h.final(launch); end.State != messages.LeaseEnded || end.Code != "stopped_by_owner" {
		h.t.Errorf("%s (%s: %s), want ended (stopped_by_owner)", end.State, end.Code, end.Reason)
	}
	if _, err := os.Stat(filepath.Join(h.Dirs().Launches(), launch)); !os.IsNotExist(err) {
		h.t.Errorf("its folder: %v", err)
	}
	h.nothingOf(launch)
	h.noAgents()
}
