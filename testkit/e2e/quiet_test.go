package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/messages"
)

// In standard confinement processes can leave their unit's control group. What
// leaves is found by the launch's marker or by what it has open: the overlay is
// not taken from under it, the owner is told who it is, and when it dies the
// launch ends as if nothing had been. What stays in the group and ignores
// SIGTERM does not survive the grace.
func TestQuiet_SurvivorsKeepTheOverlayUntilTheyDie(t *testing.T) {
	h := open(t, "")
	escape := h.escape()
	pids := filepath.Join(h.dir, "pid-")
	id := h.reach(messages.LeaseRunning, "session", "ignore-term",
		"setsid:join:"+escape+";ignore-term;pid:"+pids+"session;forever",               // the marker is in its environment
		"scrubbed:join:"+escape+";hold:$FAKE_HOME/mcp.json;pid:"+pids+"holder;forever", // it has a file of the overlay open
		"setsid:ignore-term;pid:"+pids+"inside;forever",                                // it stayed in the group
		"forever")
	pid := map[string]string{}
	for _, who := range []string{"session", "holder", "inside"} {
		h.eventually(who+" did not start", func() bool {
			b, err := os.ReadFile(pids + who)
			pid[who] = string(b)
			return err == nil
		})
	}
	h.stop(id)
	l := h.until(id, messages.LeaseUnquiet)
	why := l.History[len(l.History)-1].Why
	for who, alive := range map[string]bool{"session": true, "holder": true, "inside": false} {
		if told := strings.Contains(why, "pid "+pid[who]+" "); told != alive {
			t.Errorf("%s is process %s; told alive: %v, in %q", who, pid[who], told, why)
		}
		if _, err := os.Stat("/proc/" + pid[who]); (err == nil) != alive {
			t.Errorf("%s: %v, want alive: %v", who, err, alive)
		}
	}
	overlay := filepath.Join(h.Dirs().Launches(), id, "overlay", "mcp.json")
	if _, err := os.Stat(overlay); err != nil {
		t.Errorf("the overlay under live processes: %v", err)
	}
	// A daemon that is killed now takes the watch up again.
	h.kill()
	h.up()
	h.until(id, messages.LeaseQuiescing)
	if _, err := os.Stat(overlay); err != nil {
		t.Errorf("the overlay after the daemon's restart: %v", err)
	}
	h.must(os.WriteFile(filepath.Join(escape, "cgroup.kill"), []byte("1"), 0))
	if end := h.final(id); end.State != messages.LeaseEnded || end.Code != "stopped_by_owner" {
		t.Errorf("%s (%s: %s)", end.State, end.Code, end.Reason)
	}
	h.nothingOf(id)
	h.noAgents()
}
