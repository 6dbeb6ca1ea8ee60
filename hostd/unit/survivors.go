package unit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// Mark is by what the processes of a launch are known outside its control group.
type Mark struct {
	Launch string // lp-…: value of Marker in the environment
	Folder string // the launch's folder; the overlay lies in it
}

// Survivor is a process of a launch that is still alive.
type Survivor struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Why     string `json:"why"` // in the control group, marker in the environment, open file, …
}

// Survivors searches /proc for processes that carry the launch's marker in
// their environment, were started with a path in its folder, or hold something
// in it: working folder, root, program, open or mapped file. The caller itself
// is not one. Processes of other users can't be looked into and can't be in a
// 0700 folder either. Error: survivors_unknown.
func Survivors(mark Mark) ([]Survivor, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, problem.Wrap(err, "survivors_unknown", "/proc can't be read")
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, problem.Wrap(err, "survivors_unknown", "/proc can't be read")
	}
	var found []Survivor
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		why, err := mark.in(pid)
		if err != nil {
			return nil, problem.Wrap(err, "survivors_unknown", "process %d can't be looked at", pid)
		}
		if why != "" {
			found = append(found, Survivor{PID: pid, Command: command(pid), Why: why})
		}
	}
	return found, nil
}

// in says why the process belongs to the launch, or "". A process that ends
// while it is looked at belongs to nobody.
func (m Mark) in(pid int) (string, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	env, err := read(dir + "environ")
	if err != nil {
		return "", err
	}
	want := []byte(Marker + "=" + m.Launch)
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(kv, want) {
			return "the launch's marker is in its environment", nil
		}
	}
	args, err := read(dir + "cmdline")
	if err != nil {
		return "", err
	}
	for arg := range bytes.SplitSeq(args, []byte{0}) {
		if m.Folder != "" && strings.Contains(string(arg), m.Folder+"/") { // also --socket=PATH
			return "started with " + string(arg), nil
		}
	}
	for _, link := range []string{"cwd", "root", "exe"} {
		if to, err := os.Readlink(dir + link); err == nil && m.inside(to) {
			return "its " + link + " is " + to, nil
		} else if fatal(err) {
			return "", err
		}
	}
	fds, err := os.ReadDir(dir + "fd")
	if fatal(err) {
		return "", err
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "fd/" + fd.Name()); err == nil && m.inside(to) {
			return "it has " + to + " open", nil
		}
	}
	maps, err := read(dir + "maps")
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(maps) {
		if i := bytes.IndexByte(line, '/'); i >= 0 && m.inside(strings.TrimRight(string(line[i:]), "\n")) {
			return "it has " + strings.TrimSpace(string(line[i:])) + " mapped", nil
		}
	}
	return "", nil
}

func (m Mark) inside(p string) bool {
	return m.Folder != "" && (p == m.Folder || strings.HasPrefix(p, m.Folder+string(filepath.Separator)))
}

func read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if fatal(err) {
		return nil, err
	}
	return b, nil
}

// fatal is an error that leaves the question open. A process that ended, a
// zombie, a kernel thread, or another user's is an answer.
func fatal(err error) bool {
	return err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) &&
		!errors.Is(err, os.ErrPermission) && !errors.Is(err, unix.EINVAL)
}

func command(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	s := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	if s == "" {
		b, _ = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		s = "[" + strings.TrimSpace(string(b)) + "]"
	}
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
