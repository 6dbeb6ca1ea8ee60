package terminal

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// sender writes to a connection, and passes a descriptor with each write.
type sender struct {
	conn *net.UnixConn
	fd   int
}

// Write is of io.Writer.
func (s sender) Write(b []byte) (int, error) {
	n, _, err := s.conn.WriteMsgUnix(b, unix.UnixRights(s.fd), nil)
	return n, err
}

// rights reads a connection, and keeps the descriptors that come with the bytes.
type rights struct {
	conn *net.UnixConn
	fds  []int
}

// Read is of io.Reader.
func (r *rights) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4)) // what has no room is closed by the kernel
	n, oobn, _, _, err := r.conn.ReadMsgUnix(b, oob)
	if messages, perr := unix.ParseSocketControlMessage(oob[:oobn]); perr == nil {
		for _, m := range messages {
			if fds, ferr := unix.ParseUnixRights(&m); ferr == nil {
				r.fds = append(r.fds, fds...)
			}
		}
	}
	return n, err
}

// terminal is the terminal that came from a process, nil if none did, or an
// error for anything else: it must be open to read and write, and not to block.
// Other descriptors are closed.
func (r *rights) terminal(pid int) (*glass, error) {
	fds := r.fds
	r.fds = nil
	if len(fds) == 0 {
		return nil, nil
	}
	fit := len(fds) == 1 && term.IsTerminal(fds[0])
	if fit {
		flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFL, 0)
		fit = err == nil && flags&unix.O_NONBLOCK != 0 && flags&unix.O_ACCMODE == unix.O_RDWR
	}
	if fit {
		port, err := NewPort(fds[0])
		if err != nil {
			return nil, err
		}
		return newGlass(port, pid)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return nil, fmt.Errorf("%w: what came with it is no terminal to read and write without blocking", ErrFrame)
}
