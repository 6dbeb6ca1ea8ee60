package unit_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/unit"
	"sophia/messages/problem"
)

// Where no cgroup2 tree is mounted the end of a launch could not be proven, so
// none is started, whatever systemd would do: the test runs itself in a mount
// namespace without one, beside a manager that answers.
func TestStart_RefusesWithoutControlGroups(t *testing.T) {
	if os.Getenv("UNIT_TEST_NO_GROUPS") != "" {
		withoutGroups(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may unmount the control groups")
	}
	l := setup(t)
	again := exec.Command(os.Args[0], "-test.run=^TestStart_RefusesWithoutControlGroups$", "-test.v")
	again.Env = append(os.Environ(), append(l.systemd.Env(), "UNIT_TEST_NO_GROUPS=1")...)
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestStart_RefusesWithoutControlGroups") {
		t.Errorf("%v\n%s", err, out)
	}
}

func withoutGroups(t *testing.T) {
	for {
		mount, err := unit.UnifiedMount()
		if err != nil {
			break // the last one is gone
		}
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Fatalf("%s: %v", mount, err)
		}
	}
	m := unit.New(os.Getenv)
	defer m.Close()
	if err := m.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := m.Start(t.Context(), unit.Spec{Launch: "lp-0a1b2c", Host: "/bin/true", Manifest: "/nowhere/manifest.json", Digest: strings.Repeat("0", 64), Confine: unit.Standard})
	if p := problem.Of(err); p.Code != "control_group_unreadable" || !strings.Contains(p.Hint, "mount -t cgroup2") {
		t.Errorf("%v (%s), want control_group_unreadable with what to do", err, p.Hint)
	}
	if st, err := m.Inspect(t.Context(), unit.Name("lp-0a1b2c")); err != nil || st.Active != unit.Gone {
		t.Errorf("its unit: %v, %v, want none", st, err)
	}
}
