package e2e

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	pids := map[string]int{}
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if name := filepath.Base(strings.Fields(line)[0]); name == "sophiad" || strings.HasPrefix(name, "sophia-") || strings.Contains(line, "fake") {
			pids[name] = pid
		}
	}
	for _, name := range []string{"sophiad", "sophia-host", "sophia-wrapper"} {
		if pids[name] == 0 {
			t.Errorf("%s does not run: %v", name, running)
		}
	}
	if r := h.reads(filepath.Join(h.Dirs().Launches(), id, "report.json"), `"harness_pid"`); r != "" {
		var pid int
		_, after, _ := strings.Cut(r, `"harness_pid":`)
		if _, err := fmt.Sscan(after, &pid); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		pids["harness"] = pid
	}
	for name, pid := range pids {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max core file size 0 0") {
			t.Errorf("%s could dump core: %v\n%s", name, err, limits)
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
