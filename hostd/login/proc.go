package login

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
)

// emulators are terminal emulators whose windows nothing but a keyboard types
// into, as they are installed. What takes commands over a socket by default
// (wezterm, VS Code) is not among them, nor is what runs in an interpreter,
// whose program is that of any script.
var emulators = []string{
	"alacritty", "cosmic-term", "deepin-terminal", "foot", "ghostty", "gnome-terminal-server", "kgx", "kitty", "konsole", "lxterminal",
	"mate-terminal", "ptyxis-agent", "qterminal", "rxvt", "st", "terminology", "tilix", "urxvt", "urxvtd", "xfce4-terminal", "xterm", "yakuake",
}

// machine is the real host.
type machine struct {
	logind
	extra []string // emulators that the owner has named, absolute paths
}

func (machine) process(pid int) (peer.Stat, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return peer.Stat{}, err
	}
	s, ok := peer.ParseStat(string(b))
	if !ok {
		return peer.Stat{}, os.ErrInvalid
	}
	return s, nil
}

func (machine) title(pid int) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // without one it names nothing
	text, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(text)
}

func (machine) devpts() (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat("/dev/pts", &st)
	return st.Dev, err
}

// holders are the owner's processes that hold the master of /dev/pts/<pts>. One
// that hides its descriptors is not found, which refuses.
func (m machine) holders(pts uint32) (out []Holder, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		if !holds(dir, pts) {
			continue
		}
		s, err := m.process(pid)
		if err != nil {
			continue // it has ended
		}
		// A process with mounts of its own may mean another devpts.
		ns, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		out = append(out, Holder{PID: pid, Name: s.Name, Emulator: err == nil && ns == own && m.emulator(dir)})
	}
	return out, nil
}

// holds looks for the master among a process's descriptors. What can't be read
// has none.
func holds(dir string, pts uint32) bool {
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name())); to != "/dev/ptmx" && to != "/dev/pts/ptmx" {
			continue
		}
		info, err := os.Open(filepath.Join(dir, "fdinfo", fd.Name()))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(info)
		found := false
		for lines.Scan() && !found {
			if n, ok := strings.CutPrefix(lines.Text(), "tty-index:"); ok {
				found = strings.TrimSpace(n) == strconv.FormatUint(uint64(pts), 10)
			}
		}
		info.Close()
		if found {
			return true
		}
	}
	return false
}

// emulator says whether a process runs a known emulator, by the file and not
// only by its name: a name can be mounted over.
func (m machine) emulator(dir string) bool {
	path, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return false
	}
	var running, installed unix.Stat_t
	if unix.Stat(filepath.Join(dir, "exe"), &running) != nil || unix.Stat(path, &installed) != nil ||
		running.Dev != installed.Dev || running.Ino != installed.Ino {
		return false
	}
	return slices.Contains(m.extra, path) || slices.Contains(emulators, filepath.Base(path)) && rootsOwn(path) && rootsOwn(filepath.Dir(path))
}

func rootsOwn(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Uid == 0 && st.Mode&0o022 == 0
}
