package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/hostd/host"
	"sophia/hostd/manifest"
	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/fakeharness"
	"sophia/testkit/programs"
)

const token = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// launch is a launch's folder with everything a host needs, run without systemd.
type launch struct {
	t        *testing.T
	dir      string
	manifest messages.Manifest
	digest   string
	host     string
	log      bytes.Buffer
	cmd      *exec.Cmd
}

func prepare(t *testing.T, steps ...string) *launch {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(cache, "sophia-test"), "host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &launch{t: t, dir: dir}
	for _, sub := range []string{"overlay", "workspace", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.host = l.copy(programs.Build(t, "sophia-host"), "sophia-host")
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "workspace"), &st); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	l.manifest = messages.Manifest{
		Version: 1, Launch: "lp-0a1b2c", Lease: "ls-0a1b2c", PlanDigest: strings.Repeat("0", 64),
		Host:      l.identity(l.host),
		Harness:   l.identity(l.copy(fakeharness.Build(t), "harness")),
		Wrapper:   l.identity(l.copy("/bin/true", "sophia-wrapper")),
		Launcher:  l.identity(l.copy("/bin/true", "sophiad")),
		Workspace: messages.DirIdentity{Path: filepath.Join(dir, "workspace"), Device: st.Dev, Inode: st.Ino},
		Argv:      append([]string{"the-harness"}, steps...), Environment: map[string]string{"SOPHIA_LAUNCH": "lp-0a1b2c", "TERM": "xterm-256color"},
		Overlay: filepath.Join(dir, "overlay"), ReportPath: filepath.Join(dir, "report.json"), Expires: time.Now().Add(time.Minute).UTC().Round(0),
		Terminal:      messages.TerminalSpec{Socket: filepath.Join(dir, "terminal.sock"), TokenSHA256: hex.EncodeToString(sum[:]), Backlog: terminal.DefaultBacklog, Rows: 30, Cols: 100},
		FastFailureMS: 5000, GraceMS: 20000,
	}
	return l
}

func (l *launch) copy(from, name string) string {
	l.t.Helper()
	to := filepath.Join(l.dir, "bin", name)
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return to
}

func (l *launch) identity(path string) messages.FileIdentity {
	l.t.Helper()
	id, err := harness.IdentifyOwn(l.t.Context(), path)
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

func (l *launch) write() {
	l.t.Helper()
	var err error
	if l.digest, err = manifest.Write(l.path(), l.manifest); err != nil {
		l.t.Fatal(err)
	}
}

func (l *launch) path() string { return filepath.Join(l.dir, manifest.FileName) }

// start runs the host with stray descriptors and a polluted environment.
func (l *launch) start() {
	l.t.Helper()
	if l.digest == "" {
		l.write()
	}
	l.cmd = exec.Command(l.host, l.path(), l.digest)
	l.cmd.Env = append(os.Environ(), "STRAY=1", "LD_PRELOAD=/nowhere.so")
	l.cmd.Stderr = &l.log
	stray, err := os.Open("/etc/passwd")
	if err != nil {
		l.t.Fatal(err)
	}
	defer stray.Close()
	l.cmd.ExtraFiles = []*os.File{stray, stray}
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.cmd.Process.Kill(); l.cmd.Wait() })
}

func (l *launch) wait() int {
	l.cmd.Wait()
	return l.cmd.ProcessState.ExitCode()
}

func (l *launch) report() (r messages.HostReport) {
	l.t.Helper()
	b, err := os.ReadFile(l.manifest.ReportPath)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		l.t.Fatalf("%v; the host says %s", err, l.log.String())
	}
	return r
}

// await polls for what only the other process can tell.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func (l *launch) awaitStage(stage string) messages.HostReport {
	l.t.Helper()
	var r messages.HostReport
	await(l.t, "stage "+stage, func() bool {
		b, err := os.ReadFile(l.manifest.ReportPath)
		return err == nil && json.Unmarshal(b, &r) == nil && r.Stage == stage
	})
	return r
}

// attach runs a viewer to its end and returns what it saw. keys stay open.
func (l *launch) attach(keys *os.File) (saw string, ending terminal.Ending, err error) {
	l.t.Helper()
	in := keys
	if in == nil {
		r, w, err := os.Pipe()
		if err != nil {
			l.t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		in = r
	}
	shown, out, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	var wg sync.WaitGroup
	var all []byte
	wg.Go(func() { all, _ = io.ReadAll(shown); shown.Close() })
	sec, err := secret.New([]byte(token))
	if err != nil {
		l.t.Fatal(err)
	}
	defer sec.Zero()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	ending, err = terminal.Viewer{Socket: l.manifest.Terminal.Socket, In: in, Out: out}.Attach(ctx, sec)
	out.Close()
	wg.Wait()
	return string(all), ending, err
}

func TestHost_HarnessGetsThePTYAndNothingElse(t *testing.T) {
	l := prepare(t, "args", "env", "fds", "tty", "cwd", "echo", "exit:3")
	l.start()
	l.awaitStage(messages.StageRunning)
	await(t, "its output", func() bool { // before a viewer changes the size
		text, err := terminal.Tail(t.Context(), l.manifest.Terminal.Socket)
		return err == nil && strings.Contains(string(text), "\ncwd ")
	})
	keys, typing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer typing.Close()
	typing.WriteString("typed end\r")
	saw, ending, err := l.attach(keys)
	if err != nil || ending.Detached || ending.Exit.Code != 3 {
		t.Fatalf("%+v, %v", ending, err)
	}
	if code := l.wait(); code != 3 {
		t.Errorf("the host's exit code is %d, not the harness's", code)
	}
	var env, fds []string
	for line := range strings.Lines(saw) {
		line = strings.TrimRight(line, "\r\n")
		if v, ok := strings.CutPrefix(line, "env "); ok {
			env = append(env, v)
		}
		if v, ok := strings.CutPrefix(line, "fd "); ok {
			fds = append(fds, v)
		}
	}
	if want := []string{"SOPHIA_LAUNCH=lp-0a1b2c", "TERM=xterm-256color"}; !slices.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
	if len(fds) != 3 || !strings.HasPrefix(fds[0], "0 /dev/pts/") || !strings.HasPrefix(fds[2], "2 /dev/pts/") {
		t.Errorf("descriptors %q", fds)
	}
	for _, want := range []string{`args ["the-harness" "args"`, "tty leader=true foreground=true size=100x30", "cwd " + l.manifest.Workspace.Path, "typed end"} {
		if !strings.Contains(saw, want) {
			t.Errorf("the viewer does not see %q in %q", want, saw)
		}
	}
	if r := l.report(); r.Stage != messages.StageExited || r.ExitCode != 3 || r.HarnessPID == 0 || r.Launch != "lp-0a1b2c" {
		t.Errorf("report %+v", r)
	}
	if left, _ := filepath.Glob(l.dir + "/*"); slices.ContainsFunc(left, func(p string) bool { return strings.Contains(p, "manifest") || strings.Contains(p, ".sock") }) {
		t.Errorf("left: %v", left)
	}
}

func TestHost_RefusesWhatDiffersAndStartsNothing(t *testing.T) {
	replace := func(path string) func(*launch) { // same size, other bytes, same path
		return func(l *launch) {
			b, _ := os.ReadFile(l.dir + path)
			b[len(b)-1] ^= 1
			os.Remove(l.dir + path)
			os.WriteFile(l.dir+path, b, 0o755)
		}
	}
	for name, c := range map[string]struct {
		code  string
		spoil func(*launch)
	}{
		"harness bytes":    {"managed_harness_identity_changed", replace("/bin/harness")},
		"harness upgraded": {"managed_harness_identity_changed", func(l *launch) { l.manifest.Harness.SHA256 = strings.Repeat("1", 64) }},
		"harness gone":     {"managed_harness_missing", func(l *launch) { os.Remove(l.dir + "/bin/harness") }},
		"harness symlink": {"managed_harness_symlink", func(l *launch) {
			os.Rename(l.dir+"/bin/harness", l.dir+"/bin/h2")
			os.Symlink("h2", l.dir+"/bin/harness")
		}},
		"wrapper bytes":      {"wrapper_identity_changed", replace("/bin/sophia-wrapper")},
		"launcher bytes":     {"launcher_identity_changed", replace("/bin/sophiad")},
		"host of the plan":   {"host_identity_changed", func(l *launch) { l.manifest.Host.SHA256 = strings.Repeat("1", 64) }},
		"host inode":         {"host_identity_changed", func(l *launch) { l.manifest.Host.Inode++ }},
		"workspace moved":    {"workspace_changed", func(l *launch) { os.Rename(l.dir+"/workspace", l.dir+"/w2"); os.Mkdir(l.dir+"/workspace", 0o700) }},
		"workspace symlink":  {"workspace_changed", func(l *launch) { os.Rename(l.dir+"/workspace", l.dir+"/w2"); os.Symlink("w2", l.dir+"/workspace") }},
		"workspace gone":     {"workspace_changed", func(l *launch) { os.Remove(l.dir + "/workspace") }},
		"manifest expired":   {"manifest_expired", func(l *launch) { l.manifest.Expires = time.Now().Add(-time.Second).UTC().Round(0) }},
		"manifest swapped":   {"manifest_digest_mismatch", func(l *launch) { l.write(); l.digest = strings.Repeat("0", 64) }},
		"manifest malformed": {"manifest_malformed", func(l *launch) { l.write(); os.Chmod(l.path(), 0o644) }},
		"socket taken":       {"terminal_socket_failed", func(l *launch) { os.WriteFile(l.dir+"/terminal.sock", nil, 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := prepare(t, "pid:"+"ran", "exit:0")
			c.spoil(l)
			l.start()
			if code := l.wait(); code != host.ExitRefused {
				t.Errorf("exit code %d", code)
			}
			if r := l.report(); r.Stage != messages.StageRefused || r.Code != c.code || r.Message == "" {
				t.Errorf("report %+v", r)
			}
			if _, err := os.Stat(l.dir + "/workspace/ran"); err == nil {
				t.Error("the harness ran")
			}
			if _, err := os.Stat(l.path()); err == nil && c.code != "manifest_malformed" {
				t.Error("the manifest is still there")
			}
		})
	}
}

func TestHost_ManifestCantBeReplayed(t *testing.T) {
	l := prepare(t, "exit:0")
	l.start()
	if code := l.wait(); code != 0 {
		t.Fatalf("exit code %d: %s", code, l.log.String())
	}
	l.log.Reset()
	l.start()
	if code := l.wait(); code != host.ExitRefused || !strings.Contains(l.log.String(), "manifest_missing") {
		t.Errorf("exit code %d: %s", code, l.log.String())
	}
	if r := l.report(); r.Stage != messages.StageExited || r.Launch != "lp-0a1b2c" {
		t.Errorf("a replay changed the launch's report to %+v", r)
	}
}

// A host that never had a manifest still says why it ended.
func TestHost_ReportsThatThereIsNoManifest(t *testing.T) {
	l := prepare(t, "exit:0")
	l.digest = strings.Repeat("0", 64) // none is written
	l.start()
	if code := l.wait(); code != host.ExitRefused || l.report().Code != "manifest_missing" {
		t.Errorf("exit code %d, report %+v", code, l.report())
	}
}

func TestHost_FastFailureCanStillBeRead(t *testing.T) {
	l := prepare(t, "print:no such model", "exit:9")
	l.start()
	if r := l.awaitStage(messages.StageExited); r.ExitCode != 9 {
		t.Errorf("report %+v", r)
	}
	text, err := terminal.Tail(t.Context(), l.manifest.Terminal.Socket)
	if err != nil || string(text) != "no such model\n" {
		t.Errorf("tail %q, %v", text, err)
	}
	saw, ending, err := l.attach(nil)
	if err != nil || ending.Exit.Code != 9 || !strings.Contains(saw, "no such model") {
		t.Errorf("%q, %+v, %v", saw, ending, err)
	}
	if code := l.wait(); code != 9 { // well before the grace of 20 s is over
		t.Errorf("exit code %d", code)
	}
}

func TestHost_StopEndsTheGrace(t *testing.T) {
	l := prepare(t, "exit:9")
	l.manifest.GraceMS = 3_600_000
	l.start()
	l.awaitStage(messages.StageExited)
	l.cmd.Process.Signal(unix.SIGTERM)
	if code := l.wait(); code != 9 {
		t.Errorf("exit code %d", code)
	}
}

// What a stop cuts off is no sign of a change, and starts no harness.
func TestHost_StoppedWhileItVerifies(t *testing.T) {
	l := prepare(t, "pid:ran")
	l.write()
	ctx, stop := context.WithCancel(t.Context())
	stop() // before it has read a byte
	if code := (host.Host{Log: &l.log, Now: time.Now}).Run(ctx, l.path(), l.digest); code != 128+int(unix.SIGTERM) {
		t.Errorf("exit code %d: %s", code, l.log.String())
	}
	if r := l.report(); r.Stage != messages.StageExited || !r.Stopped || r.Launch != "lp-0a1b2c" {
		t.Errorf("report %+v", r)
	}
	if _, err := os.Stat(l.dir + "/workspace/ran"); err == nil {
		t.Error("the harness ran")
	}
}

// Neither is one that was not done in time.
func TestHost_VerificationTakesTooLong(t *testing.T) {
	l := prepare(t, "pid:ran")
	l.write()
	if code := (host.Host{Log: &l.log, Now: time.Now, Verify: time.Nanosecond}).Run(t.Context(), l.path(), l.digest); code != host.ExitRefused {
		t.Errorf("exit code %d: %s", code, l.log.String())
	}
	if r := l.report(); r.Stage != messages.StageRefused || r.Code != "verification_timed_out" {
		t.Errorf("report %+v", r)
	}
}

// systemd tells host and harness of a stop in the same instant: that the harness
// was the first to end does not make it a failure.
func TestHost_StoppedWithItsHarness(t *testing.T) {
	l := prepare(t, "forever")
	l.start()
	harness := l.awaitStage(messages.StageRunning).HarnessPID
	unix.Kill(harness, unix.SIGTERM)
	await(t, "the harness's end", func() bool { return unix.Kill(harness, 0) == unix.ESRCH }) // the host knows
	l.cmd.Process.Signal(unix.SIGTERM)
	if code := l.wait(); code != 128+int(unix.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	if r := l.report(); !r.Stopped || r.Signal != "terminated" {
		t.Errorf("report %+v", r)
	}
}

func TestHost_HarnessKilledBySignal(t *testing.T) {
	l := prepare(t, "kill:9")
	l.manifest.FastFailureMS = 0
	l.start()
	if code := l.wait(); code != 128+9 {
		t.Errorf("exit code %d", code)
	}
	if r := l.report(); r.Signal != "killed" || r.ExitCode != 137 {
		t.Errorf("report %+v", r)
	}
}

func TestHost_AnswersTheTerminalsQuestionsWhileNobodyLooks(t *testing.T) {
	l := prepare(t, `query:\e[6n`, `query:\e[c`, `query:\e]11;?\a`, "exit:0")
	l.start()
	if code := l.wait(); code != 0 {
		t.Errorf("exit code %d: a question was not answered", code)
	}
}

// A viewer whose terminal takes nothing: a pipe that nobody reads, and a real
// terminal, which the host writes to itself.
func TestHost_FloodWithAStalledViewerDoesNotStopTheAgent(t *testing.T) {
	for _, real := range []bool{false, true} {
		t.Run(fmt.Sprintf("real terminal %v", real), func(t *testing.T) {
			l := prepare(t, "flood:30000000", "pid:done", "forever")
			l.start()
			l.awaitStage(messages.StageRunning)
			pair := os.Pipe
			if real {
				pair = pty.Open // the other end, and the terminal
			}
			stuck, out, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			v := terminal.Viewer{Socket: l.manifest.Terminal.Socket, In: out, Out: out}
			if real {
				v.Host = func(context.Context) (int, error) { return l.cmd.Process.Pid, nil }
			} else {
				keys, typing, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer keys.Close()
				defer typing.Close()
				v.In = keys
			}
			sec, _ := secret.New([]byte(token))
			defer sec.Zero()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { v.Attach(ctx, sec) })
			await(t, "the flood's end", func() bool { _, err := os.Stat(l.dir + "/workspace/done"); return err == nil })
			cancel()
			stuck.Close()
			wg.Wait()
			out.Close()
			// The viewer is gone, and the agent runs on.
			if err := unix.Kill(l.report().HarnessPID, 0); err != nil {
				t.Errorf("the harness: %v", err)
			}
		})
	}
}

func TestHost_DescendantThatKeepsTheTerminalDoesNotHoldTheEnd(t *testing.T) {
	l := prepare(t, "child:ignore-term;sleep:60", "exit:0")
	l.start()
	pid := 0
	await(t, "the harness", func() bool {
		b, err := os.ReadFile(l.manifest.ReportPath)
		var r messages.HostReport
		if err == nil && json.Unmarshal(b, &r) == nil {
			pid = r.HarnessPID
		}
		return pid != 0
	})
	done := make(chan int, 1)
	go func() { done <- l.wait() }()
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Error("the host waits for a process that the harness left behind")
	}
	unix.Kill(-pid, unix.SIGKILL)
}

func TestHost_WrongTokensEndTheTerminalAndNotTheAgent(t *testing.T) {
	l := prepare(t, "forever")
	l.start()
	r := l.awaitStage(messages.StageRunning)
	sec, _ := secret.New([]byte("wrong"))
	defer sec.Zero()
	for range 3 {
		_, err := terminal.Viewer{Socket: l.manifest.Terminal.Socket, In: os.Stdin, Out: os.Stdout}.Attach(t.Context(), sec)
		if problem.CodeOf(err) != "wrong_token" {
			t.Errorf("got %v", err)
		}
	}
	await(t, "the socket's end", func() bool { _, err := os.Stat(l.manifest.Terminal.Socket); return errors.Is(err, os.ErrNotExist) })
	if err := unix.Kill(r.HarnessPID, 0); err != nil {
		t.Errorf("the harness: %v", err)
	}
	unix.Kill(r.HarnessPID, unix.SIGKILL)
	l.wait()
}
