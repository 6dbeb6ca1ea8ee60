package usermanager

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// groups is one control group in the v2 tree and, on a hybrid host, the same
// in the v1 hierarchies that systemd uses.
type groups struct {
	path    string // from the mount on
	unified string
	v1      []string
	named   string // the v1 hierarchy name=systemd, "" on pure v2
}

func makeGroups(name string) (groups, error) {
	var g groups
	mount := ""
	for _, m := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(m, "cgroup.procs")); err == nil {
			if _, err := os.Stat(filepath.Join(m, "cgroup.controllers")); err == nil {
				mount = m
				break
			}
		}
	}
	if mount == "" {
		return g, unavailable("no cgroup2 tree is mounted", "As root: mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	base := "/" // root has all of the tree; a user has what was delegated
	if os.Geteuid() != 0 {
		base = ownGroup()
	}
	g.path = filepath.Join(base, "sophia-"+name+"-"+strconv.FormatInt(time.Now().UnixNano()%1e9, 36))
	g.unified = filepath.Join(mount, g.path)
	if err := os.Mkdir(g.unified, 0o755); err != nil {
		return g, unavailable("can't make a control group: "+err.Error(),
			"Run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes …")
	}
	if mount == "/sys/fs/cgroup/unified" {
		hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
		for _, h := range hierarchies {
			h = filepath.Dir(h)
			if h == mount || !filepath.IsAbs(h) {
				continue
			}
			g.v1 = append(g.v1, filepath.Join(h, g.path)) // systemd makes those that it uses
			if filepath.Base(h) == "systemd" {
				g.named = filepath.Join(h, g.path)
				if err := os.Mkdir(g.named, 0o755); err != nil {
					g.remove()
					return g, unavailable("can't make a control group: "+err.Error(), "Run as root.")
				}
			}
		}
	}
	return g, nil
}

// procs are the files that a process writes its id into to join.
func (g groups) procs() []string {
	files := []string{filepath.Join(g.unified, "cgroup.procs")}
	if g.named != "" {
		files = append(files, filepath.Join(g.named, "cgroup.procs"))
	}
	return files
}

func (g groups) all() []string { return append([]string{g.unified}, g.v1...) }

func (g groups) remove() {
	for _, dir := range g.all() {
		os.Remove(dir)
	}
}

func ownGroup() string {
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return p
		}
	}
	return "/"
}
