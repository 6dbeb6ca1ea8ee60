package e2e

import (
	"path/filepath"
	"testing"

	"sophia/messages"
)

// A launch whose unit is stopped has not failed: the owner stopped it, by
// `sophia down` or with systemd's own tools.
func TestStopped_TheUnitOrTheDaemonByTheOwner(t *testing.T) {
	h := open(t, "")
	h.run("systemctl stop", func() {
		id := h.reach(messages.LeaseRunning, "session", "forever")
		if out, err := h.Manager.Command("systemctl", "--user", "stop", filepath.Base(h.unitGroup(id))).CombinedOutput(); err != nil {
			h.t.Fatalf("%v\n%s", err, out)
		}
		if end := h.final(id); end.State != messages.LeaseEnded || end.Code != "unit_stopped" {
			h.t.Errorf("%s (%s: %s), want ended (unit_stopped)", end.State, end.Code, end.Reason)
		}
		h.nothingOf(id)
		h.noAgents()
	})
	h.run("sophia down", func() {
		running, waiting := h.reach(messages.LeaseRunning, "session", "forever"), h.propose("forever")
		h.must(h.Sophia(h.ctx(), nil, "down"))
		h.Tray.Clear()
		h.up()
		h.endsAsAsked(running)
		if end := h.final(waiting.Launch); end.State != messages.LeaseRefused || end.Code != "approval_withdrawn" {
			h.t.Errorf("%s (%s: %s), want refused (approval_withdrawn)", end.State, end.Code, end.Reason)
		}
	})
}
