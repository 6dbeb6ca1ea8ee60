package world

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ProcessesOf are the processes that carry the launch's name in their
// environment or arguments, without the caller and its children by command
// line of the CLI.
func ProcessesOf(launch string) (pids []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		pid, bad := strconv.Atoi(filepath.Base(p))
		if bad != nil || pid == os.Getpid() {
			continue
		}
		for _, f := range []string{"environ", "cmdline"} {
			if b, gone := os.ReadFile(filepath.Join(p, f)); gone == nil && strings.Contains(string(b), launch) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, err
}

// Running are the processes below the manager's control group: command line by
// process id.
func (w *World) Running() (map[int]string, error) {
	out := map[int]string{}
	err := filepath.WalkDir(w.Manager.GroupDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return nil // ENODEV: the group went while it was read
		}
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if line, err := os.ReadFile("/proc/" + f + "/cmdline"); err == nil && len(line) > 0 {
				out[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return nil
	})
	return out, err
}

// LaunchFolders are the launches that have a folder.
func (w *World) LaunchFolders() (out []string, err error) {
	entries, err := os.ReadDir(w.Dirs().Launches())
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}
