package usermanager_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sophia/testkit/usermanager"
)

func systemctl(t *testing.T, m *usermanager.Manager, arg ...string) string {
	t.Helper()
	out, err := m.Command("systemctl", append([]string{"--user"}, arg...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %v: %v\n%s", arg, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestUserManager_TwoDoNotMeet(t *testing.T) {
	a, b := usermanager.Start(t), usermanager.Start(t)
	for _, m := range []*usermanager.Manager{a, b} {
		out, err := m.Command("systemd-run", "--user", "--unit=same", "-p", "Type=exec", "sleep", "1000").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := filepath.Join(m.Group, "app.slice", "same.service")
		if got := systemctl(t, m, "show", "same", "-p", "ControlGroup", "--value"); got != want {
			t.Errorf("control group %q, want %q", got, want)
		}
	}
	systemctl(t, a, "stop", "same")
	if got := systemctl(t, b, "is-active", "same"); got != "active" {
		t.Errorf("stopping a unit of one manager made the other's %s", got)
	}
	if got := systemctl(t, b, "is-system-running"); got != "running" {
		t.Errorf("the manager is %s", got)
	}
}

func TestUserManager_StopLeavesNothing(t *testing.T) {
	m := usermanager.Start(t)
	// A process that ignores the manager's shutdown.
	out, err := m.Command("systemd-run", "--user", "--unit=stubborn", "-p", "Type=exec", "-p", "TimeoutStopSec=1s",
		"sh", "-c", "trap '' TERM; setsid sleep 1000 & wait; sleep 1000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{m.RuntimeDir, m.GroupDir} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*" + m.Group); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The guard must do its work also when the test process can't.
func TestUserManager_KillOfTheOwnerLeavesNothing(t *testing.T) {
	if dir := os.Getenv("USERMANAGER_CHILD"); dir != "" {
		m := usermanager.Start(t)
		os.Stdout.WriteString("ready " + m.RuntimeDir + " " + m.GroupDir + "\n")
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestUserManager_KillOfTheOwnerLeavesNothing$")
	cmd.Env = append(os.Environ(), "USERMANAGER_CHILD=1")
	// The guard holds the child's stderr: reading to its end waits for the guard.
	stderr, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	out, runErr := cmd.Output()
	w.Close()
	buf := make([]byte, 1)
	for {
		if _, err := stderr.Read(buf); err != nil {
			break
		}
	}
	if runErr == nil {
		t.Fatal("the child was not killed")
	}
	f := strings.Fields(string(out))
	if len(f) != 3 || f[0] != "ready" {
		t.Skipf("skipped: no manager in the child: %s", out)
	}
	for _, path := range f[1:] {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}
