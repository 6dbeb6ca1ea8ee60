package terminal

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Port reads and writes a descriptor that does not block, and does not tell
// Go's scheduler of each call. Told of one in a process that was idle, the
// scheduler wakes its monitor thread, and a keystroke on its way to its echo
// passes through idle processes only: each wake-up may take longer than all
// calls together.
type Port struct{ raw syscall.RawConn }

// NewPort returns the port of a socket, or of a file that does not block.
func NewPort(c syscall.Conn) (Port, error) {
	raw, err := c.SyscallConn()
	return Port{raw}, err
}

// Read is of io.Reader. Deadlines and closing end it.
func (p Port) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	var n int
	var errno syscall.Errno
	err := p.raw.Read(func(fd uintptr) bool {
		n, errno = transfer(unix.SYS_READ, fd, b)
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is of io.Writer. Deadlines and closing end it.
func (p Port) Write(b []byte) (int, error) {
	var done int
	var errno syscall.Errno
	err := p.raw.Write(func(fd uintptr) bool {
		for done < len(b) {
			n, e := transfer(unix.SYS_WRITE, fd, b[done:])
			if errno = e; errno != 0 {
				return errno != unix.EAGAIN
			}
			done += n
		}
		return true
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return done, err
}

// transfer is read(2) or write(2).
func transfer(call, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// openAgain opens a terminal once more, for it not to block: how f itself is
// open is shared with the shell. ok is false for what is no terminal, and for
// a terminal that somebody else opened for this process.
func openAgain(f *os.File, flag int) (again *os.File, p Port, ok bool) {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return nil, p, false
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flag|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, p, false
	}
	if p, err = NewPort(again); err != nil {
		again.Close()
		return nil, p, false
	}
	return again, p, true
}
