package ownercli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/doctor"
	"sophia/hostd/ownerapi"
)

// sound is what a daemon without a fault tells.
func sound() doctor.Daemon {
	return doctor.Daemon{
		PID: 4711, Version: "1.2.0", Now: noon, Unit: "sophia-daemon.service", MCP: "http://127.0.0.1:1/mcp", Trays: 1,
		Isolates:  doctor.Isolates{Idle: 2, Engine: "10.9", Layers: []doctor.Layer{{Name: "seccomp", On: true}}},
		Harnesses: []doctor.Harness{{ID: "codex", Pinned: "codex-cli 0.147.0", Adopted: true, SHA256: "abababababababab"}},
		Store:     doctor.Store{Head: 42, Checked: 42, Last: before(time.Minute)},
	}
}

func reportOf(t *testing.T, text string) (r doctor.Report, states map[string]doctor.State) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	states = map[string]doctor.State{}
	for _, c := range r.Checks {
		states[c.Name] = c.State
	}
	return r, states
}

func TestDoctor_ExitsByWhatHasFailed(t *testing.T) {
	var told doctor.Daemon
	var fulls []bool
	s := newShellWith(t, func(services *ownerapi.Services) {
		services.Doctor = func(_ context.Context, full bool) (doctor.Daemon, error) {
			fulls = append(fulls, full)
			return told, nil
		}
	})
	// The scripted home has no programs: those checks fail whatever the daemon says.
	for name, text := range map[string]string{"sound": "", "damaged": "journal entry 7 is missing"} {
		told = sound()
		if text != "" {
			told.Store.Problems = []string{text}
		}
		code, out, errs := s.run("doctor --json")
		r, states := reportOf(t, out)
		if code != 1 || errs != "" || r.Fail == 0 || states["program.sophia-host"] != doctor.Fail || states["daemon"] != doctor.OK {
			t.Errorf("%s: exit %d %s\n%s", name, code, errs, out)
		}
		if (states["store"] == doctor.Fail) != (text != "") {
			t.Errorf("%s: the store is %s", name, states["store"])
		}
	}
	if code, out, _ := s.run("doctor --full"); code != 1 || !strings.Contains(out, "Reading the whole store") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if len(fulls) != 3 || fulls[0] || fulls[1] || !fulls[2] {
		t.Errorf("full: %v", fulls)
	}
}

func TestDoctor_ForPeopleAndForScripts(t *testing.T) {
	s := newShellWith(t, func(services *ownerapi.Services) {
		services.Doctor = func(context.Context, bool) (doctor.Daemon, error) {
			d := sound()
			d.Trays = 0
			return d, nil
		}
	})
	_, out, _ := s.run("doctor")
	for line := range strings.Lines(out) {
		if cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(cells) != 4 {
			t.Errorf("%d cells: %q", len(cells), line)
		}
	}
	if !strings.Contains(out, "warn\ttray\tnone is connected") || strings.Contains(out, "\x1b") {
		t.Error(out)
	}
	s.tty, s.columns = true, 80
	_, out, _ = s.run("doctor")
	if !strings.Contains(out, "\x1b[31mFAIL\x1b[0m  program.sophia ") || !strings.Contains(out, "sophia-tray --terminal") || !strings.Contains(out, " failures, ") {
		t.Error(out)
	}
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[1m", "", "\x1b[0m", "", s.home, "HOME").Replace(out)
	for line := range strings.Lines(plain) {
		if strings.HasPrefix(line, "warn  tray") && len(line) > 81 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
}

func TestDoctor_WithoutADaemonChecksWhatNeedsNone(t *testing.T) {
	s := newShell(t)
	s.home = t.TempDir() // nothing was ever started here
	code, out, _ := s.run("doctor --json")
	_, states := reportOf(t, out)
	if code != 1 || states["daemon"] != doctor.Fail || states["folder.data"] != doctor.Warn || states["kernel.openat2"] == "" || states["control_groups"] == "" || states["listen"] == "" || states["isolates"] != "" {
		t.Errorf("exit %d\n%s", code, out)
	}
	if entries, err := os.ReadDir(s.home); err != nil || len(entries) != 0 {
		t.Errorf("doctor made %v, %v", entries, err)
	}
	s.home = "relative"
	if code, out, _ := s.run("doctor --json"); code != 1 || !strings.Contains(out, "SOPHIA_HOME") {
		t.Errorf("exit %d\n%s", code, out)
	}
	s.home = t.TempDir()
	if err := os.MkdirAll(filepath.Join(s.home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.home, "config", "config.toml"), []byte("lisen = 'x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := s.run("doctor --json"); !strings.Contains(out, "line 1: unknown setting lisen") {
		t.Error(out)
	}
}
