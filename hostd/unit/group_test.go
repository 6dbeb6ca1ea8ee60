package unit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sophia/messages/problem"
)

func TestGroup_PathFollowsFromSliceAndName(t *testing.T) {
	for _, c := range [][4]string{
		{"", "app.slice", "x.service", "/app.slice/x.service"},
		{"/user.slice/user-1000.slice/user@1000.service", "app.slice", "x.service", "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service"},
		{"/r", "a-b-c.slice", "x.service", "/r/a.slice/a-b.slice/a-b-c.slice/x.service"},
		{"/r", "-.slice", "x.service", "/r/x.service"},
		{"/r", "a--b.slice", "x.service", ""},
		{"/r", "../x.slice", "x.service", ""},
		{"/r", "", "x.service", ""},
	} {
		if got := groupPath(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("groupPath(%q, %q, %q) = %q, want %q", c[0], c[1], c[2], got, c[3])
		}
	}
}

func TestGroup_FindsTheUnifiedTree(t *testing.T) {
	hybrid := `28 25 0:25 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
30 28 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
29 28 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw
`
	pure := "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	part := "30 24 0:26 /part /mnt/x rw - cgroup2 cgroup2 rw\n" + pure
	for text, want := range map[string]string{hybrid: "/sys/fs/cgroup/unified", pure: "/sys/fs/cgroup", part: "/sys/fs/cgroup"} {
		if got, err := unifiedIn(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if _, err := unifiedIn(strings.NewReader("1 2 0:1 / / rw - ext4 /dev/x rw\n")); err == nil {
		t.Error("found a tree that is not there")
	}
}

// Kernels without cgroup.kill: a process that does not go is told about.
func TestGroup_KillOfEachSaysWhoSurvives(t *testing.T) {
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait() // not before: what nobody waits for stays
	dir := t.TempDir()
	pid := strconv.Itoa(zombie.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &Group{Path: dir, dir: f}
	defer g.Close()
	if err := g.killEach(); problem.CodeOf(err) != "unit_not_killed" || !strings.Contains(err.Error(), pid) {
		t.Errorf("%v, want that %s is alive", err, pid)
	}
}
