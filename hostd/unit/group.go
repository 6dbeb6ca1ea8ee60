package unit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/messages/problem"
)

// pollEvery is the poll behind inotify: a removed control group sends no event.
const pollEvery = 250 * time.Millisecond

// Group is a unit's control group, held open: a group that is removed and made
// anew under the same path is not mistaken for it.
type Group struct {
	Path string
	dir  *os.File // nil: it was gone already
}

// OpenGroup opens the control group of a validated reference. One that does
// not exist any more is a Group that is not populated, no error.
// Error: control_group_unreadable.
func OpenGroup(ref messages.UnitRef) (*Group, error) {
	unreadable := func(cause error, format string, args ...any) (*Group, error) {
		return nil, problem.Wrap(cause, "control_group_unreadable", format, args...)
	}
	cg := ref.ControlGroup
	if !path.IsAbs(cg) || path.Clean(cg) != cg || path.Base(cg) != ref.Name || ref.InvocationID == "" {
		return unreadable(nil, "%q is not the control group of %s", cg, ref.Name)
	}
	mount, err := unifiedMount()
	if err != nil {
		return unreadable(err, "the cgroup2 tree was not found")
	}
	full := filepath.Join(mount, cg)
	fd, err := unix.Open(full, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return &Group{Path: full}, nil
	case err != nil:
		return unreadable(err, "can't open %s", full)
	}
	return &Group{Path: full, dir: os.NewFile(uintptr(fd), full)}, nil
}

// Close gives the descriptor back.
func (g *Group) Close() {
	if g.dir != nil {
		g.dir.Close()
	}
}

// Populated is true while a process lives in the group or below it. Zombies
// don't count (cgroups(7): they can't be on this group's account).
func (g *Group) Populated() (bool, error) {
	b, err := g.read("cgroup.events")
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return true, problem.Wrap(err, "control_group_unreadable", "can't read cgroup.events of %s", g.Path)
	}
	for line := range strings.Lines(string(b)) {
		switch strings.TrimSpace(line) {
		case "populated 0":
			return false, nil
		case "populated 1":
			return true, nil
		}
	}
	return true, problem.New("control_group_unreadable", "cgroup.events of %s does not say whether it is populated", g.Path)
}

// WaitEmpty returns nil as soon as the group is not populated, by inotify with
// a poll behind it, or the context's error.
func (g *Group) WaitEmpty(ctx context.Context) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return problem.Wrap(err, "control_group_unreadable", "no inotify")
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if g.dir != nil {
		// The watch is made before the first look, so no change is missed.
		watch := "/proc/self/fd/" + strconv.Itoa(int(g.dir.Fd())) + "/cgroup.events"
		if _, err := unix.InotifyAddWatch(fd, watch, unix.IN_MODIFY|unix.IN_DELETE_SELF); err != nil && !isGone(err) {
			return problem.Wrap(err, "control_group_unreadable", "can't watch %s", g.Path)
		}
	}
	stop := context.AfterFunc(ctx, func() { events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	for {
		if populated, err := g.Populated(); err != nil || !populated {
			return err
		}
		events.SetReadDeadline(time.Now().Add(pollEvery))
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := events.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return problem.Wrap(err, "control_group_unreadable", "inotify failed")
		}
	}
}

// Kill sends SIGKILL to every process in the group at once, also to those that
// are being forked (cgroup.kill, Linux 5.14; before that, one after the other
// until none is left).
func (g *Group) Kill() error {
	if g.dir == nil {
		return nil
	}
	fd, err := unix.Openat(int(g.dir.Fd()), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte("1"))
	}
	if err == nil || isGone(err) {
		if populated, perr := g.Populated(); err == nil || (perr == nil && !populated) {
			return nil
		}
	}
	return g.killEach()
}

func (g *Group) killEach() error {
	const rounds = 100
	var left []int
	for range rounds { // each meets what the last one's victims forked
		pids, err := g.Processes()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return problem.Wrap(err, "control_group_unreadable", "can't kill process %d", pid)
			}
		}
		left = pids
	}
	return problem.New("unit_not_killed", "after %d kills each, processes are in %s still: %v", rounds, g.Path, left).
		WithHint("A process that hangs in the kernel, or one that forks faster than it is killed. Sophia goes on trying.")
}

// Processes lists the ids of the processes in the group and below it.
func (g *Group) Processes() ([]int, error) {
	if g.dir == nil {
		return nil, nil
	}
	var pids []int
	root := "/proc/self/fd/" + strconv.Itoa(int(g.dir.Fd())) + "/"
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if isGone(err) {
			return nil
		}
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil && !isGone(err) {
			return err
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, problem.Wrap(err, "control_group_unreadable", "can't list the processes of %s", g.Path)
	}
	return pids, nil
}

func (g *Group) read(name string) ([]byte, error) {
	if g.dir == nil {
		return nil, unix.ENOENT
	}
	fd, err := unix.Openat(int(g.dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// isGone: a removed group's files answer with ENODEV while one has them open.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// unifiedMount finds where the cgroup2 tree is mounted with its root.
func unifiedMount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	return unifiedIn(f)
}

// unifiedIn reads proc(5)'s mountinfo: fields 4 (root) and 5 (mount point),
// then after " - " the file system's type.
func unifiedIn(r io.Reader) (string, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		if f := strings.Fields(before); ok && len(f) >= 5 && strings.HasPrefix(after, "cgroup2 ") && f[3] == "/" {
			return f[4], nil
		}
	}
	if err := s.Err(); err != nil {
		return "", err
	}
	return "", errors.New("no cgroup2 file system is mounted")
}

// processGroup is a process's group in the v2 tree (cgroups(7): "0::path").
func processGroup(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "0::"); ok {
			return p, nil
		}
	}
	return "", errors.New("no cgroup2 membership")
}

func within(group, above string) bool { return strings.HasPrefix(group, above+"/") }

// groupPath is where systemd puts a unit: below the manager's own group, then
// one folder a slice, where a-b.slice lies in a.slice (systemd.slice(5)).
// It is "" for a slice that is not understood.
func groupPath(root, slice, name string) string {
	base, ok := strings.CutSuffix(slice, ".slice")
	if !ok || base == "" || strings.ContainsRune(base, '/') {
		return ""
	}
	p := path.Join("/", root)
	if base != "-" {
		parts := strings.Split(base, "-")
		for i := range parts {
			if parts[i] == "" {
				return ""
			}
			p = path.Join(p, strings.Join(parts[:i+1], "-")+".slice")
		}
	}
	return path.Join(p, name)
}
