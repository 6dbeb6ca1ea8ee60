package probe_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/doctor"
	"sophia/hostd/doctor/probe"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/hostd/unit"
	"sophia/testkit/usermanager"
)

func dirsIn(t *testing.T) paths.Dirs {
	t.Helper()
	home := t.TempDir()
	d, err := paths.Resolve(func(name string) string { return map[string]string{"SOPHIA_HOME": home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestProbe_LooksAndMakesNothing(t *testing.T) {
	d := dirsIn(t)
	for _, f := range probe.Folders(d) {
		if !f.Missing || f.Problem != "" {
			t.Errorf("%+v", f)
		}
	}
	if k := probe.OwnerKey(d.OwnerKey()); !k.Missing {
		t.Errorf("%+v", k)
	}
	for _, disk := range probe.Disks(d) {
		if disk.Free == 0 || disk.Problem != "" {
			t.Errorf("%+v", disk)
		}
	}
	if k := probe.Kernel(d.Harnesses()); k.Release == "" {
		t.Errorf("%+v", k)
	}
	if entries, err := os.ReadDir(filepath.Dir(d.Data)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestProbe_FindsWhatIsOpenToOthers(t *testing.T) {
	d := dirsIn(t)
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	key, err := ownerkey.LoadOrCreate(d.OwnerKey())
	if err != nil {
		t.Fatal(err)
	}
	key.Close()
	if k := probe.OwnerKey(d.OwnerKey()); k.Missing || k.Problem != "" {
		t.Errorf("a sound key: %+v", k)
	}
	for _, path := range []string{d.State, d.OwnerKey()} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range probe.Folders(d) {
		if (f.Problem != "") != (f.Path == d.State) || f.Path == d.State && !strings.Contains(f.Mend, "chmod") {
			t.Errorf("%+v", f)
		}
	}
	if k := probe.OwnerKey(d.OwnerKey()); k.Problem == "" || k.Missing {
		t.Errorf("%+v", k)
	}
}

func TestProbe_Programs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sophia"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sophiad"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "sophiad"), 0o777); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range probe.Programs(t.Context(), dir) {
		found[p.Name] = p.Problem
	}
	if found["sophiad"] == "" || !strings.Contains(found["sophia-host"], "does not exist") || len(found) != len(doctor.ProgramNames) {
		t.Errorf("%+v", found)
	}
}

func TestProbe_Addresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if a := probe.Answers(t.Context(), at); !a.Running || !a.Answers {
		t.Errorf("%+v", a)
	}
	if a := probe.Free(at); a.Problem == "" {
		t.Errorf("a taken address is called free: %+v", a)
	}
	l.Close()
	if a := probe.Answers(t.Context(), at); a.Answers || a.Problem == "" {
		t.Errorf("%+v", a)
	}
	if a := probe.Free(at); a.Problem != "" {
		t.Errorf("%+v", a)
	}
}

func TestProbe_SystemdThereAndNot(t *testing.T) {
	away := unit.New(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": "/nonexistent"}[name] })
	defer away.Close()
	if s := probe.Systemd(t.Context(), away); s.Problem == "" {
		t.Errorf("%+v", s)
	}
	m := usermanager.Start(t)
	there := unit.New(m.Getenv)
	defer there.Close()
	if s := probe.Systemd(t.Context(), there); s.Problem != "" || s.Version == "" || !s.Bus || s.User == "" || s.Linger == nil {
		t.Errorf("%+v", s)
	}
	if g := probe.ControlGroups(); g.Mount == "" || !g.Events {
		t.Errorf("%+v", g)
	}
}

// unitRootAs makes this test binary, started again in a mount namespace of its own,
// say what an ordinary user is told of /run/systemd with these folders in it.
const unitRootAs = "PROBE_TEST_UNIT_ROOT"

func TestUnitRoot_AsAnOrdinaryUser(t *testing.T) {
	if folders, asked := os.LookupEnv(unitRootAs); asked {
		if err := unix.Mount("none", "/run", "tmpfs", 0, "mode=755"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("/run/systemd/"+folders, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setuid(65534); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("told %q\n", probe.UnitRoot())
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may mount another /run")
	}
	for folders, want := range map[string]string{"": `told "/run/systemd/unit-root is missing"`, "unit-root": `told ""`} {
		again := exec.Command(os.Args[0], "-test.run=^TestUnitRoot_AsAnOrdinaryUser$")
		again.Env = append(os.Environ(), unitRootAs+"="+folders)
		again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := again.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("with %q: %v\n%s", folders, err, out)
		}
	}
}
