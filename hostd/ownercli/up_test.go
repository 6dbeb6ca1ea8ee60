package ownercli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/doctor"
	"sophia/hostd/ownerapi"
	"sophia/testkit/programs"
	"sophia/testkit/usermanager"
)

// real is the real programs over a home of this test's own.
type real struct {
	t    *testing.T
	bin  string
	home string
	work string
	env  []string
}

func newReal(t *testing.T, env ...string) *real {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "sophia-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(base, "up-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	r := &real{t: t, home: home, work: t.TempDir(), bin: programs.Dir(t, "sophia", "sophiad", "sophia-host", "sophia-isolate", "sophia-compile", "sophia-tray", "sophia-wrapper")}
	r.env = append([]string{"SOPHIA_HOME=" + home, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	if err := os.Mkdir(filepath.Join(home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(home, "config", "config.toml"), "listen = \"127.0.0.1:0\"\n")
	r.write(filepath.Join(r.work, "notes.md"), "# Notes\n\nThe harbour opens at nine.\n")
	t.Cleanup(func() { r.run("down") })
	return r
}

func (r *real) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "sophia"), args...)
	cmd.Env, cmd.Dir = r.env, r.work
	return cmd
}

func (r *real) run(args ...string) (code int, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := r.command(ctx, args...)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

func (r *real) must(args ...string) string {
	r.t.Helper()
	code, out := r.run(args...)
	if code != 0 {
		log, _ := os.ReadFile(filepath.Join(r.home, "state", "sophiad.log"))
		r.t.Fatalf("sophia %s: exit %d\n%s\n--- log\n%s", strings.Join(args, " "), code, out, log)
	}
	return out
}

func (r *real) status() ownerapi.Status {
	r.t.Helper()
	var s ownerapi.Status
	if err := json.Unmarshal([]byte(r.must("status", "--json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// gone waits for a process to end.
func (r *real) gone(pid int) {
	r.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30000); n != 1 {
		r.t.Fatalf("process %d does not end", pid)
	}
}

func (r *real) kill(pid int) {
	r.t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.gone(pid)
}

func TestUp_AsUnitAgainAndAfterKill(t *testing.T) {
	m := usermanager.Start(t)
	r := newReal(t, "XDG_RUNTIME_DIR="+m.Getenv("XDG_RUNTIME_DIR"), "DBUS_SESSION_BUS_ADDRESS="+m.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	out := r.must("up", "--workspace", ".")
	if !strings.Contains(out, "Sophia runs as sophia-daemon.service") || !strings.Contains(out, "added: 1 document, 0 code modules, 0 symbols.") || !strings.Contains(out, "sophia connect codex") {
		t.Errorf("up:\n%s", out)
	}
	first := r.status()
	if first.Unit != "sophia-daemon.service" {
		t.Errorf("unit %q", first.Unit)
	}
	code, told := r.output("doctor", "--json")
	report, states := reportOf(t, told)
	if code != 0 || report.Fail != 0 || states["systemd"] != doctor.OK || states["dbus"] != doctor.OK || states["daemon.unit"] != doctor.OK || states["lingering"] == "" {
		t.Errorf("doctor: exit %d\n%s", code, told)
	}
	if out := r.must("up", "--workspace", "."); !strings.Contains(out, fmt.Sprintf("runs already, as sophia-daemon.service (pid %d)", first.PID)) {
		t.Errorf("up again:\n%s", out)
	}
	if out := r.must("up"); strings.Contains(out, "built anew") {
		t.Errorf("the same build:\n%s", out)
	}
	rebuilt := filepath.Join(r.bin, "sophiad")
	text, err := os.ReadFile(rebuilt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(rebuilt); err != nil { // as go build does
		t.Fatal(err)
	}
	if err := os.WriteFile(rebuilt, append(text, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := r.must("up"); !strings.Contains(out, "built anew") {
		t.Errorf("another build:\n%s", out)
	}
	other := newReal(t, r.env[3:]...)
	if code, out := other.run("up"); code != 1 || !strings.Contains(out, "(another_home_runs)") {
		t.Errorf("another home on the same manager: %d\n%s", code, out)
	}
	if out := other.must("down"); !strings.Contains(out, "was not running") {
		t.Errorf("another home's down:\n%s", out)
	}
	r.kill(first.PID)
	r.must("up")
	second := r.status()
	if second.PID == first.PID || second.Workspaces != 1 {
		t.Errorf("after kill -9: %+v", second)
	}
	if out := r.must("down"); out != "Sophia has stopped.\n" {
		t.Errorf("down:\n%s", out)
	}
	r.gone(second.PID)
	if code, _ := r.run("status"); code != 4 {
		t.Errorf("status after down: exit %d", code)
	}
	if out := r.must("down"); out != "Sophia was not running.\n" {
		t.Errorf("down again:\n%s", out)
	}
	entries, err := os.ReadDir(strings.TrimPrefix(r.env[1], "HOME="))
	if err != nil || len(entries) != 0 {
		t.Errorf("something was written outside SOPHIA_HOME: %v %v", entries, err)
	}
}

func TestUp_ForegroundWithoutSystemd(t *testing.T) {
	r := newReal(t, "XDG_RUNTIME_DIR=/nonexistent")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	start := func() (cmd *exec.Cmd, out *watched) {
		cmd, out = r.command(ctx, "up", "--workspace", "."), newWatched()
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.wait(t, "Ctrl-C stops it")
		return cmd, out
	}
	cmd, _ := start()
	r.must("status")
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if code, _ := r.run("status"); code != 4 {
		t.Errorf("status after Ctrl-C: exit %d", code)
	}

	cmd, out := start()
	r.kill(r.status().PID)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "(daemon_failed)") {
		t.Errorf("a killed daemon: %v\n%s", err, out)
	}

	cmd, _ = start() // recovers
	if out := r.must("down"); out != "Sophia has stopped.\n" {
		t.Errorf("down:\n%s", out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("stopped by down: %v", err)
	}
}

func TestConnect_ChecksWithARealOrient(t *testing.T) {
	r := newReal(t, "XDG_RUNTIME_DIR=/nonexistent")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	up, out := r.command(ctx, "up"), newWatched()
	up.Stdout, up.Stderr = out, out
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "Ctrl-C stops it")
	defer func() { r.run("down"); up.Wait() }()

	for _, client := range []string{"codex", "claude-code", "cursor"} {
		config := filepath.Join(r.work, client+".config")
		got := r.must("connect", client, "--scope", "acme", "--config", config, "--yes")
		if !strings.Contains(got, "sophia.orient answered") || !strings.Contains(got, "+ ") {
			t.Errorf("%s:\n%s", client, got)
		}
		text, err := os.ReadFile(config)
		if err != nil || !strings.Contains(string(text), "sophia-wrapper") {
			t.Errorf("%s: %v\n%s", client, err, text)
		}
	}
	if got := r.must("connect", "generic", "--profile", "observer"); !strings.Contains(got, "export SOPHIA_BEARER=") {
		t.Errorf("generic:\n%s", got)
	}
	var minted ownerapi.Minted
	if err := json.Unmarshal([]byte(r.must("connection", "mint", "Script", "--scope", "acme", "--json")), &minted); err != nil {
		t.Fatal(err)
	}
	bearer, err := os.ReadFile(minted.BearerFile)
	if err != nil {
		t.Fatal(err)
	}
	r.must("connection", "revoke", minted.Connection)
	_, list := r.run("connection", "list", "--all", "--json")
	if strings.Contains(list, string(bearer)) {
		t.Error("a bearer is in the list")
	}

	// A config that can't be changed safely is left, and nothing stays minted.
	config := filepath.Join(r.work, "odd.json")
	r.write(config, "{ // with a comment\n}")
	before := strings.Count(r.must("connection", "list"), "\n")
	if code, got := r.run("connect", "cursor", "--scope", "acme", "--config", config, "--yes"); code != 1 || !strings.Contains(got, "(config_not_understood)") || !strings.Contains(got, `"mcpServers"`) {
		t.Errorf("exit %d\n%s", code, got)
	}
	if after := strings.Count(r.must("connection", "list"), "\n"); after != before {
		t.Errorf("%d connections, before it were %d", after, before)
	}
}

// watched is output that a test waits for.
type watched struct {
	text chan []byte
	all  bytes.Buffer
}

func newWatched() *watched { return &watched{text: make(chan []byte, 1024)} }

func (w *watched) Write(p []byte) (int, error) {
	w.text <- bytes.Clone(p)
	return len(p), nil
}

func (w *watched) wait(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(90 * time.Second)
	for !strings.Contains(w.all.String(), text) {
		select {
		case p := <-w.text:
			w.all.Write(p)
		case <-timeout:
			t.Fatalf("%q did not come:\n%s", text, w.all.String())
		}
	}
}

// String is all that came; the writer has ended.
func (w *watched) String() string {
	for {
		select {
		case p := <-w.text:
			w.all.Write(p)
		default:
			return w.all.String()
		}
	}
}
