package isolates_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/isolates"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/programs"
)

// recorded keeps the processes that were started, so that a test can kill them.
type recorded struct {
	mu    sync.Mutex
	procs []isolates.Proc
}

func (r *recorded) wrap(spawn isolates.Spawn) isolates.Spawn {
	return func(ctx context.Context) (isolates.Proc, error) {
		p, err := spawn(ctx)
		if err == nil {
			r.mu.Lock()
			r.procs = append(r.procs, p)
			r.mu.Unlock()
		}
		return p, err
	}
}

func (r *recorded) killAll() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.procs {
		p.Kill()
	}
	return len(r.procs)
}

func TestPool_SurvivesKillOfEveryWorkerAtOnce(t *testing.T) {
	var r recorded
	w := newWorld(t, isolates.Config{Warm: 3, Max: 3, Log: slog.New(slog.DiscardHandler), Spawn: r.wrap(isolates.Command(programs.Build(t, "sophia-isolate")))})
	w.idle(t)
	for range 3 {
		if r.killAll() == 0 {
			t.Fatal("there was nothing to kill")
		}
		// At once: whoever gets a dead worker gets another one.
		if got := w.run(t, "40 + 2"); string(got.Value) != "42" {
			t.Fatalf("%+v %+v", got, got.Error)
		}
	}
	// And in the middle of a run: the result says what had been done, and the
	// snippet is not run a second time.
	caller := standard()
	hang := caller.by["sophia.hang"]
	caller.by["sophia.hang"] = func(ctx context.Context, args json.RawMessage) (any, error) {
		r.killAll()
		return hang(ctx, args)
	}
	got := w.runWith(t, messages.RunRequest{Code: "await sophia.orient(); await sophia.hang()", Methods: methods}, caller)
	if got.Error == nil || got.Error.Kind != messages.KindCrash || len(got.Calls) != 2 || !got.Calls[0].OK || got.Pending != 1 || len(caller.made()) != 2 {
		t.Errorf("%+v %+v", got, got.Error)
	}
	if got := w.run(t, "'next'"); string(got.Value) != `"next"` {
		t.Errorf("%+v %+v", got, got.Error)
	}
}

func TestPool_MissingProgramIsAProblemThatSaysSo(t *testing.T) {
	w := newWorld(t, isolates.Config{Log: slog.New(slog.DiscardHandler), Spawn: isolates.Command(filepath.Join(t.TempDir(), "sophia-isolate"))})
	_, err := w.Run(t.Context(), messages.RunRequest{Code: "1"}, standard())
	if p := problem.Of(err); p.Code != "isolate_unavailable" || p.Hint == "" {
		t.Errorf("%+v", p)
	}
}

func TestPool_ProgramThatIsNoWorkerIsAProblem(t *testing.T) {
	w := newWorld(t, isolates.Config{Log: slog.New(slog.DiscardHandler), Spawn: isolates.Command("/bin/true")})
	if _, err := w.Run(t.Context(), messages.RunRequest{Code: "1"}, standard()); problem.CodeOf(err) != "isolate_unavailable" {
		t.Errorf("%v", err)
	}
}

func TestWorker_ReportsEachLayer(t *testing.T) {
	w := real(t, isolates.Config{})
	w.idle(t)
	s, err := w.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Report.HeapLimit != 8<<20 || s.Report.Engine == "" {
		t.Errorf("%+v", s.Report)
	}
	seen := map[string]bool{}
	for _, l := range s.Report.Layers {
		seen[l.Name] = true
		t.Logf("%-12s %v %s", l.Name, l.On, l.Detail)
		if !l.On && l.Detail == "" {
			t.Errorf("%s is off and does not say why", l.Name)
		}
		// These two need nothing of the kernel but age.
		if (l.Name == "seccomp" || l.Name == "limits") && !l.On {
			t.Errorf("%s is off: %s", l.Name, l.Detail)
		}
	}
	for _, name := range []string{"namespaces", "descriptors", "no_new_privs", "dumpable", "limits", "mdwe", "landlock", "seccomp"} {
		if !seen[name] {
			t.Errorf("%s is not reported", name)
		}
	}
}

// What an idle worker holds: its three pipes, no environment of ours, and
// nothing else that was open here.
func TestWorker_InheritsNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a worker is not dumpable: only root may look into its /proc")
	}
	t.Setenv("SOPHIA_TEST_SECRET", "hunter2")
	open, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	w := real(t, isolates.Config{Warm: 1, Max: 1})
	w.idle(t)
	for _, pid := range childrenOf(t, os.Getpid()) {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || strings.Contains(string(env), "hunter2") {
			t.Errorf("environment of %d: %q, %v", pid, env, err)
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			if err == nil && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:") {
				t.Errorf("descriptor %s of %d is %s", fd.Name(), pid, to)
			}
		}
	}
}

const daemonEnv = "SOPHIA_TEST_ISOLATE_DAEMON"

// TestWorker_DiesWithTheDaemon plays the daemon in a process of its own, with
// one worker that computes and others that wait, and kills it with SIGKILL.
func TestWorker_DiesWithTheDaemon(t *testing.T) {
	if path := os.Getenv(daemonEnv); path != "" {
		playDaemon(t, path)
		return
	}
	daemon := exec.Command(os.Args[0], "-test.run=^TestWorker_DiesWithTheDaemon$")
	daemon.Env = append(os.Environ(), daemonEnv+"="+programs.Build(t, "sophia-isolate"))
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "computing" {
	}
	workers := childrenOf(t, daemon.Process.Pid)
	if len(workers) < 2 {
		t.Fatalf("the daemon has %d workers", len(workers))
	}
	var held []int
	for _, pid := range workers {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("worker %d: %v", pid, err)
		}
		defer unix.Close(fd)
		held = append(held, fd)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for i, fd := range held {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(time.Until(deadline), 0).Milliseconds()))
			if err == unix.EINTR {
				continue
			}
			if n != 1 {
				t.Errorf("worker %d outlives the daemon", workers[i])
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			break
		}
	}
}

func playDaemon(t *testing.T, path string) {
	w := newWorld(t, isolates.Config{Warm: 2, Max: 3, Spawn: isolates.Command(path)})
	caller := standard()
	caller.by["sophia.orient"] = func(context.Context, json.RawMessage) (any, error) {
		w.idle(t)
		fmt.Println("computing")
		return 1, nil
	}
	w.runWith(t, messages.RunRequest{Code: "await sophia.orient(); for (;;) {}", Methods: methods, TimeoutMS: 30_000}, caller)
}

func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Skip("this kernel does not list the children of a process")
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(b)) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n)); err == nil && strings.TrimSpace(string(name)) == "sophia-isolate" {
				children = append(children, n)
			}
		}
	}
	return children
}
