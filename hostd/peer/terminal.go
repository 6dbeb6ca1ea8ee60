package peer

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// Terminal is where a process reads and writes.
type Terminal struct {
	Device uint64 // its device number, as in stat(2)'s st_rdev
	On     uint64 // the file system that it lies on, st_dev: which devpts, of a pseudo-terminal
	Leader int    // the process that leads the session whose controlling terminal it is
}

// String is the terminal's name as ps(1) shows it.
func (t Terminal) String() string {
	// Documentation/admin-guide/devices.txt: Unix98 PTY slaves and virtual consoles.
	switch major, minor := unix.Major(t.Device), unix.Minor(t.Device); {
	case 136 <= major && major <= 143:
		return fmt.Sprintf("pts/%d", (major-136)<<8+minor)
	case major == 4 && minor < 64:
		return fmt.Sprintf("tty%d", minor)
	default:
		return fmt.Sprintf("%d:%d", major, minor)
	}
}

const inTerminal = "Run it directly in a terminal, without redirecting its input or output."

// Terminal is the process's controlling terminal, which must also be its
// standard input and output: so that who types is who sees, and neither is a
// terminal that somebody else made. Codes: peer_without_terminal, peer_gone.
func (p *Peer) Terminal() (Terminal, error) {
	text, err := p.read("stat")
	if err != nil {
		return Terminal{}, gone(err)
	}
	stat, ok := ParseStat(text)
	if !ok || stat.Terminal == 0 {
		return Terminal{}, problem.New("peer_without_terminal", "process %d has no terminal", p.PID).WithHint(inTerminal)
	}
	t := Terminal{Device: stat.Terminal, Leader: stat.Session}
	for _, name := range []string{"fd/0", "fd/1"} {
		var st unix.Stat_t
		if err := unix.Fstatat(int(p.proc.Fd()), name, &st, 0); err != nil {
			return Terminal{}, problem.Wrap(err, "peer_without_terminal", "what process %d reads or writes can't be seen", p.PID)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != t.Device {
			return Terminal{}, problem.New("peer_without_terminal", "process %d does not read and write its own terminal", p.PID).WithHint(inTerminal)
		}
		t.On = st.Dev
	}
	return t, p.alive()
}

// Stat is what proc_pid_stat(5) says of a process, as far as it is used.
type Stat struct {
	Name       string // at most 15 bytes, and the process's own choice
	State      byte   // as ps(1) shows it: 'T' is stopped
	Parent     int
	Group      int    // its process group
	Session    int    // the process that leads its session
	Terminal   uint64 // controlling terminal, a device number; 0 is none
	Foreground int    // the process group that has that terminal's keys; -1 is none
}

// ParseStat reads the contents of /proc/<pid>/stat.
func ParseStat(text string) (Stat, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // the name may have both
	if open < 0 || end < open {
		return Stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 6 || len(f[0]) != 1 {
		return Stat{}, false
	}
	var n [5]int
	for i := range n {
		v, err := strconv.ParseInt(f[1+i], 10, 64)
		if err != nil {
			return Stat{}, false
		}
		n[i] = int(v)
	}
	return Stat{Name: text[open+1 : end], State: f[0][0], Parent: n[0], Group: n[1], Session: n[2], Terminal: device(uint32(n[3])), Foreground: n[4]}, true
}

// device turns the kernel's own notation (new_encode_dev in linux/kdev_t.h:
// minor 0–7 and 20–31, major 8–19) into stat(2)'s.
func device(n uint32) uint64 {
	if n == 0 {
		return 0
	}
	return unix.Mkdev(n>>8&0xfff, n&0xff|n>>12&0xfff00)
}
