package terminal

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Port reads and writes a descriptor that does not block, and wakes its process
// no more often than that takes: a keystroke on its way to its echo passes
// through idle processes only, and each wake-up may take longer than all calls
// together.
//
// Go's scheduler is not told of each call: told of one in a process that was
// idle, it wakes its monitor thread. And its poller does not watch the descriptor
// itself, because it watches for room to write too: each read at the other side,
// which makes room, would wake a process that has nothing to write.
type Port struct {
	fd      int
	in, out *readiness
	once    sync.Once
	err     error // of closing
}

// NewPort takes fd over. An error closes it.
func NewPort(fd int) (*Port, error) {
	in, err := newReadiness(fd, unix.EPOLLIN)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	out, err := newReadiness(fd, 0)
	if err != nil {
		in.poll.Close()
		unix.Close(fd)
		return nil, err
	}
	return &Port{fd: fd, in: in, out: out}, nil
}

// PortOf is the port of a connection, which can be closed then: the port has a
// descriptor of its own. Until it is, both wake the process.
func PortOf(conn *net.UnixConn) (*Port, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var again int
	var errDup error
	if err := raw.Control(func(fd uintptr) { again, errDup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if errDup != nil {
		return nil, errDup
	}
	return NewPort(again)
}

// Read is of io.Reader. Deadlines and closing end it.
func (p *Port) Read(b []byte) (int, error) {
	return p.read(b, func() (bool, error) { return true, nil })
}

// errNotNow is returned by ReadIf.
var errNotNow = errors.New("terminal: not to be read now")

// ReadIf is Read, but asks whether it may when there is something to read, and
// takes nothing and returns errNotNow when it may not.
func (p *Port) ReadIf(b []byte, may func() bool) (int, error) {
	return p.read(b, func() (bool, error) {
		switch {
		case !readable(p.fd):
			return false, nil
		case !may():
			return false, errNotNow
		}
		return true, nil
	})
}

// read reads once ready says so. It is asked now and after each event.
func (p *Port) read(b []byte, ready func() (bool, error)) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	var n int
	var errno syscall.Errno
	var no error
	err := p.in.until(func() bool {
		var now bool
		if now, no = ready(); !now {
			return no != nil
		}
		n, errno = transfer(unix.SYS_READ, p.fd, b)
		return errno != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case no != nil:
		return 0, no
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is of io.Writer. Deadlines and closing end it.
func (p *Port) Write(b []byte) (int, error) {
	var done int
	var errno syscall.Errno
	var armed bool
	err := p.out.until(func() bool {
		for done < len(b) {
			n, e := transfer(unix.SYS_WRITE, p.fd, b[done:])
			if errno = e; e == unix.EAGAIN {
				if !armed { // wakes at once if there is room by now
					armed = true
					if e := p.out.watch(unix.EPOLL_CTL_MOD, p.fd, unix.EPOLLOUT); e != nil {
						errno = e.(syscall.Errno)
						return true
					}
				}
				return false
			}
			if e != 0 {
				return true
			}
			done += n
		}
		if armed {
			_ = p.out.watch(unix.EPOLL_CTL_MOD, p.fd, 0) // it did the same above
		}
		return true
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return done, err
}

// SetReadDeadline and SetWriteDeadline are as of os.File.
func (p *Port) SetReadDeadline(t time.Time) error { return p.in.poll.SetReadDeadline(t) }

func (p *Port) SetWriteDeadline(t time.Time) error { return p.out.poll.SetReadDeadline(t) }

// Control calls f with the descriptor, which stays open meanwhile.
func (p *Port) Control(f func(fd int)) error { return p.in.raw.Control(func(uintptr) { f(p.fd) }) }

// CloseWrite ends what the other side of a socket reads.
func (p *Port) CloseWrite() (err error) {
	cerr := p.Control(func(fd int) { err = unix.Shutdown(fd, unix.SHUT_WR) })
	return errors.Join(cerr, err)
}

// Close ends reads and writes. Once more it changes nothing.
func (p *Port) Close() error {
	p.once.Do(func() {
		// Closed, they have no call under way any more.
		p.err = errors.Join(p.in.poll.Close(), p.out.poll.Close(), unix.Close(p.fd))
	})
	return p.err
}

// readiness waits for one kind of event of a descriptor: by an epoll instance of
// its own (epoll(7)), which Go's poller watches in the descriptor's place. It can
// be read when there is an event in it, and never written.
type readiness struct {
	poll *os.File
	raw  syscall.RawConn
	fd   int // of poll
}

func newReadiness(fd int, events uint32) (*readiness, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(poll, true); err != nil { // tells Go that it can be polled
		unix.Close(poll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	r := &readiness{poll: os.NewFile(uintptr(poll), "epoll"), fd: poll}
	if err := r.watch(unix.EPOLL_CTL_ADD, fd, events); err != nil {
		r.poll.Close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	if r.raw, err = r.poll.SyscallConn(); err != nil {
		r.poll.Close()
		return nil, err
	}
	return r, nil
}

func (r *readiness) watch(op, fd int, events uint32) error {
	return unix.EpollCtl(r.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// until calls try now and after each event, until it returns true.
func (r *readiness) until(try func() bool) error {
	return r.raw.Read(func(uintptr) bool { return try() })
}

// readable is ppoll(2) that does not wait.
func readable(fd int) bool {
	ready := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var now unix.Timespec
	n, _, _ := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ready)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return n != 0
}

// transfer is read(2) or write(2).
func transfer(call uintptr, fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// openAgain opens a terminal once more, for it not to block: how f itself is
// open is shared with the shell. ok is false for what is no terminal, and for
// a terminal that somebody else opened for this process.
func openAgain(f *os.File, flag int) (again *Port, ok bool) {
	fd, ok := reopen(f, flag)
	if !ok {
		return nil, false
	}
	again, err := NewPort(fd)
	return again, err == nil
}

func reopen(f *os.File, flag int) (fd int, ok bool) {
	fd = int(f.Fd())
	if !term.IsTerminal(fd) {
		return -1, false
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flag|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return fd, err == nil
}
