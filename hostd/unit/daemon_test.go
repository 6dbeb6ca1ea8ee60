package unit_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/unit"
)

// The unit of an agent that takes its time to stop is bound to the daemon's,
// and keeps that name taken after the daemon was killed.
func TestDaemon_StartsAgainWhileAnAgentOfTheKilledOneStops(t *testing.T) {
	l := setup(t)
	program, pid := filepath.Join(l.systemd.RuntimeDir, "daemon"), filepath.Join(l.folder, "pid")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	up := func() error { // as `sophia up` does it: its references to units end with it
		m := unit.New(l.systemd.Getenv)
		defer m.Close()
		return m.StartDaemon(within(t, 20*time.Second), unit.DaemonSpec{Program: program})
	}
	if err := up(); err != nil {
		t.Fatal(err)
	}
	ref := l.start(t, func(s *unit.Spec) { s.Daemon = unit.DaemonUnit }, "ignore-term", "pid:"+pid, "sleep:2") // it stops late, by itself
	pidOf(t, pid)
	first, err := l.manager.MainPID(t.Context(), unit.DaemonUnit)
	if err != nil || first == 0 {
		t.Fatalf("the daemon is process %d, %v", first, err)
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.manager.Release(t.Context(), ref.Name) // the daemon that was killed had it
	for states := l.manager.Watch(within(t, 20*time.Second), ref); ; {
		state, open := <-states
		if !open {
			t.Fatal("the agent has stopped at once")
		}
		if state.Active == "deactivating" {
			break
		}
	}
	if err := up(); err != nil {
		t.Fatal(err)
	}
	second, err := l.manager.MainPID(t.Context(), unit.DaemonUnit)
	if err != nil || second == 0 || second == first {
		t.Errorf("the daemon is process %d after %d, %v", second, first, err)
	}
}
