package terminal

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
)

// glass is a viewer's terminal that was handed over.
type glass struct {
	*Port
	tty  uint64        // its device number
	stat *os.File      // the viewer's /proc/<pid>/stat, proc_pid_stat(5)
	fd   uintptr       // of stat
	line *unix.Termios // how it was before the viewer made it raw; may be nil
}

// newGlass takes the port over.
func newGlass(port *Port, pid int) (_ *glass, err error) {
	g := &glass{Port: port}
	var st unix.Stat_t
	if cerr := port.Control(func(fd int) { err = unix.Fstat(fd, &st) }); cerr != nil {
		err = cerr
	}
	if err == nil {
		g.tty = st.Rdev
		g.stat, err = os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	}
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	g.fd = g.stat.Fd()
	return g, nil
}

// Close ends reads and writes.
func (g *glass) Close() error {
	err := g.Port.Close() // no read asks whose the keys are any more
	return errors.Join(err, g.stat.Close())
}

// viewers is whether the viewer itself would get what is typed. Stopped, or sent
// to the background, it would not: the keys are its shell's then. It is asked
// before each key: see Port for why Go's scheduler is not told of the call.
func (g *glass) viewers() bool {
	var b [512]byte
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREAD64, g.fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return false
	}
	s, ok := peer.ParseStat(string(b[:n]))
	return ok && hasKeys(s, g.tty)
}

func hasKeys(s peer.Stat, tty uint64) bool {
	away := strings.IndexByte("TtZX", s.State) >= 0 // stopped, traced, dead
	// Another controlling terminal's foreground says nothing about this one.
	return !away && (s.Terminal != tty || s.Group == s.Foreground)
}
