package e2e

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"sophia/hostd/daemon"
	"sophia/hostd/ownerapi"
	"sophia/messages/problem"
	"sophia/testkit/world"
)

// foreground runs `sophia up` on a terminal until it says that it runs.
func (h *house) foreground(flags ...string) *world.Screen {
	h.t.Helper()
	s, err := world.OnScreen(h.Command(context.Background(), "sophia", append([]string{"up", "--workspace", h.dir}, flags...)...))
	h.must(err)
	h.must(s.Shows(h.ctx(), "Ctrl-C stops it"))
	a, err := daemon.ReadAddress(h.Dirs().Address())
	h.must(err)
	h.pid, h.mcp = a.PID, a.MCP
	h.api, err = h.Client()
	h.must(err)
	w, err := h.api.Workspaces(h.ctx())
	h.must(err)
	h.workspace = w.Items[0].ID
	return s
}

// A machine without systemd: the daemon runs in the foreground and serves, an
// agent can't be started and the refusal says what to do, Ctrl-C stops all of
// it, and after kill -9 it comes up again with what was acknowledged.
func TestForeground_ServesWithoutSystemdAndRefusesToLaunch(t *testing.T) {
	h := build(t, binaries(t))
	h.configure("")
	s := h.foreground()
	t.Cleanup(func() { _ = s.Close() }) // however far it came

	mark := h.remember()
	connection, err := h.Mint(h.ctx(), "An agent", "--profile", "observer", "--scope", "*")
	h.must(err)
	agent, err := world.Connect(h.ctx(), h.mcp, connection)
	h.must(err)
	var found struct {
		Total int `json:"total"`
	}
	h.must(agent.Call(h.ctx(), "sophia.search_documents", map[string]any{"query": "needle"}, &found))
	if found.Total == 0 {
		t.Error("the workspace's document was not found")
	}
	_, err = h.api.Propose(h.ctx(), h.workspace, ownerapi.StartRequest{Harness: "fake"})
	if p := problem.Of(err); p.Code != "systemd_unavailable" || p.Hint == "" {
		t.Errorf("a launch: %v (%s), want systemd_unavailable with a hint", err, p.Hint)
	}
	err = h.Sophia(h.ctx(), nil, "agent", "start", "--harness", "fake")
	failed, _ := errors.AsType[*world.CommandError](err)
	if failed == nil || !strings.Contains(failed.Output, "systemd_unavailable") {
		t.Errorf("sophia agent start: %v", err)
	}
	_ = agent.Close() // its session ends with the daemon anyway

	h.must(s.Type("\x03"))
	if err := s.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v\n%s", err, s.Text())
	}
	h.stopped()

	s = h.foreground()
	h.remembers(mark)
	mark = h.remember()
	h.must(world.Kill(h.ctx(), h.pid))
	if err := s.Wait(); exitCode(err) != 1 {
		t.Errorf("after kill -9 of the daemon: %v, want exit 1\n%s", err, s.Text())
	}
	s = h.foreground()
	h.remembers(mark)
	h.nothingWaits()
	h.must(s.Cmd.Process.Signal(syscall.SIGINT))
	if err := s.Wait(); err != nil {
		t.Errorf("SIGINT: %v\n%s", err, s.Text())
	}
	h.stopped()
	if r, err := h.VerifyStore(); err != nil || len(r.Problems) > 0 {
		t.Errorf("the store: %v, %q", err, r.Problems)
	}
}

// Who closes the terminal that the daemon runs in, or kills the command that
// waits for it, has no daemon left behind.
func TestForeground_EndsWithItsTerminal(t *testing.T) {
	h := build(t, binaries(t))
	h.configure("")
	s := h.foreground()
	_ = s.Close() // the exit code of a command without a terminal is nobody's
	h.stopped()

	s = h.foreground()
	defer s.Close()
	h.must(s.Cmd.Process.Kill())
	h.stopped()
}

// stopped fails the test unless the daemon has gone in order.
func (h *house) stopped() {
	h.t.Helper()
	h.must(world.Gone(h.ctx(), h.pid))
	if _, err := os.Stat(h.Dirs().Address()); !os.IsNotExist(err) {
		h.t.Errorf("its address: %v, want it gone", err)
	}
	if alive := h.children(); len(alive) > 0 {
		h.t.Errorf("it left %v", alive)
	}
}

// children are the processes of this house's programs.
func (h *house) children() (out []string) {
	all, err := os.ReadDir("/proc")
	h.must(err)
	for _, p := range all {
		env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		if err != nil || !strings.Contains(string(env), h.Home+"/s") {
			continue
		}
		line, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		out = append(out, p.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return out
}
