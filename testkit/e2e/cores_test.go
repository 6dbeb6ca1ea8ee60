package e2e

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/testkit/world"
)

// Secrets live in memory, so no program that may hold one writes its memory to
// a file: daemon, host, wrapper and harness have a core limit of 0, and killed
// with a signal that dumps, they leave no core.
func TestCores_NoProgramOfALaunchDumpsItsMemory(t *testing.T) {
	h := open(t, "")
	id := h.reach(messages.LeaseRunning, "session", "forever")
	pids := h.programsOf(id)
	for name, pid := range pids {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max core file size 0 0") {
			t.Errorf("%s could dump core: %v\n%s", name, err, limits)
		}
		filter, err := os.ReadFile(fmt.Sprintf("/proc/%d/coredump_filter", pid))
		if err != nil || strings.Trim(string(filter), "0\n") != "" {
			t.Errorf("%s has memory to dump: %v %s", name, err, filter)
		}
	}
	for _, name := range []string{"sophia-wrapper", "harness", "sophia-host", "sophiad"} {
		if err := unix.Kill(pids[name], unix.SIGQUIT); err != nil && !errors.Is(err, unix.ESRCH) { // gone with the one before
			t.Errorf("%s: %v", name, err)
		}
		h.must(world.Gone(h.ctx(), pids[name]))
	}
	h.noCores()
	h.up()
	h.final(id)
	h.nothingOf(id)
}

// programsOf are the processes of a launch that runs, and the daemon.
func (h *house) programsOf(launch string) map[string]int {
	h.t.Helper()
	pids := map[string]int{}
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if name := filepath.Base(strings.Fields(line)[0]); name == "sophiad" || strings.HasPrefix(name, "sophia-") {
			pids[name] = pid
		}
	}
	r := h.reads(filepath.Join(h.Dirs().Launches(), launch, "report.json"), `"harness_pid"`)
	var harness int
	_, after, _ := strings.Cut(r, `"harness_pid":`)
	if _, err := fmt.Sscan(after, &harness); err != nil {
		h.t.Fatalf("%s: %v", r, err)
	}
	pids["harness"] = harness
	for _, name := range []string{"sophiad", "sophia-host", "sophia-wrapper"} {
		if pids[name] == 0 {
			h.t.Errorf("%s does not run: %v", name, running)
		}
	}
	return pids
}

// Where the machine does collect cores, in files and in a program that reads
// them from a pipe whatever the limits say: a program of a launch that crashes
// leaves no file, and what the pipe gets has no bearer in it. The control is a
// process without our precautions, whose memory is found in both.
func TestCores_ACrashLeavesNoBearerWhereCoresAreCollected(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: core_pattern is the machine's")
	}
	h := open(t, "")
	for _, piped := range []bool{false, true} {
		t.Run(fmt.Sprintf("piped %v", piped), func(t *testing.T) {
			cores := collectCores(t, piped)
			control := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ulimit -c unlimited; exec sleep 600")
			control.Env = []string{"MARK=in-the-control's-memory"}
			if err := control.Start(); err != nil {
				t.Fatal(err)
			}
			h.eventually("sleep does not run", func() bool {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", control.Process.Pid))
				return strings.HasPrefix(string(line), "sleep")
			})
			crashNow(t, control.Process.Pid)
			_ = control.Wait() // killed
			if core := cores(control.Process.Pid); !bytes.Contains(core, []byte("in-the-control's-memory")) {
				t.Fatalf("the control failed: its core has %d bytes", len(core))
			}

			id := h.reach(messages.LeaseRunning, "session", "forever")
			s := search{digest: h.connectionsOf(id)[0].BearerSHA256}
			pids := h.programsOf(id)
			if !s.memory(pids["sophia-wrapper"]) {
				t.Error("the control failed: the wrapper's memory has no bearer")
			}
			s.found = nil
			for _, name := range []string{"sophia-wrapper", "sophia-host", "sophiad"} {
				if alive := unix.Kill(pids[name], 0) == nil; !alive {
					t.Errorf("%s ended with the one before: there is nothing to crash", name)
					continue
				}
				crashNow(t, pids[name])
				h.must(world.Gone(h.ctx(), pids[name]))
				core := cores(pids[name])
				if !piped && len(core) > 0 {
					t.Errorf("%s left a core file", name)
				}
				if name == "sophia-wrapper" && len(core) > 0 {
					t.Error("the wrapper is not dumpable, and was dumped")
				}
				s.in("the core of "+name, core)
				t.Logf("%s: a core of %d bytes", name, len(core))
			}
			for _, where := range s.found {
				t.Errorf("the bearer is in %s", where)
			}
			h.up()
			h.final(id)
			h.nothingOf(id)
		})
	}
}

// collectCores has the kernel write core files, or pipe them into a program,
// until the test ends. It returns the core of a process that is gone.
func collectCores(t *testing.T, piped bool) (of func(pid int) []byte) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cores-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	set := func(name, value string) {
		t.Helper()
		path := "/proc/sys/kernel/" + name
		before, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(value), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(path, before, 0); err != nil {
				t.Error(err)
			}
		})
	}
	if piped {
		handler := filepath.Join(dir, "take")
		if err := os.WriteFile(handler, []byte("#!/bin/sh\nexec cat >"+dir+"/$1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		set("core_pipe_limit", "16") // so that a process is gone only when its core was read
		set("core_pattern", "|"+handler+" %P")
	} else {
		set("core_pattern", dir+"/%P")
	}
	return func(pid int) []byte {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(pid)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return b
	}
}

// crashNow makes a process fail so that no handler of its own can keep the
// kernel from dumping it: it runs on at address 0, with all signals blocked.
func crashNow(t *testing.T, pid int) {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	fail := func(err error) {
		if err != nil {
			t.Fatalf("process %d can't be made to crash: %v", pid, err)
		}
	}
	fail(syscall.PtraceAttach(pid))
	_, err := syscall.Wait4(pid, nil, syscall.WALL, nil)
	fail(err)
	blocked := ^uint64(0)
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, unix.PTRACE_SETSIGMASK, uintptr(pid), unsafe.Sizeof(blocked), uintptr(unsafe.Pointer(&blocked)), 0, 0); errno != 0 {
		fail(errno)
	}
	var regs syscall.PtraceRegs
	fail(syscall.PtraceGetRegs(pid, &regs))
	regs.SetPC(0)
	fail(syscall.PtraceSetRegs(pid, &regs))
	fail(syscall.PtraceDetach(pid))
}

// noCores fails the test when a core file lies anywhere below the house.
func (h *house) noCores() {
	h.t.Helper()
	h.must(filepath.WalkDir(h.Home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it goes while we look
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		head := make([]byte, 18)
		if _, err := f.ReadAt(head, 0); err == nil && bytes.HasPrefix(head, []byte(elf.ELFMAG)) && elf.Type(head[16])|elf.Type(head[17])<<8 == elf.ET_CORE {
			h.t.Errorf("%s is a core file", path)
		}
		return nil
	}))
}
