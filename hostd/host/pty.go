package host

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/hostd/terminal"
)

// answers is how many answers to terminal queries may wait for a program that
// does not read its input; what comes after is dropped, as a terminal does.
const answers = 64

// screen is the PTY's master side. It is a terminal.Screen.
type screen struct {
	master *terminal.Port
	typing sync.Mutex // one writer at a time: keystrokes are not interleaved
	answer chan string
}

// openPTY makes a PTY of the given size: set before any program sees it,
// because full-screen programs break on 0×0. The master never blocks a thread,
// so that deadlines end its reads; the slave is opened without a path, which
// could mean another one in another mount namespace.
func openPTY(size terminal.Size) (s *screen, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	s = &screen{answer: make(chan string, answers)}
	if s.master, err = terminal.NewPort(fd); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		s.master.Close()
		return nil, nil, err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		s.master.Close()
		return nil, nil, errno
	}
	slave = os.NewFile(peer, "pts")
	if err := s.Resize(size); err != nil {
		s.master.Close()
		slave.Close()
		return nil, nil, err
	}
	return s, slave, nil
}

// Resize is of terminal.Screen.
func (s *screen) Resize(size terminal.Size) error {
	var ierr error
	if err := s.master.Control(func(fd int) {
		ierr = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	}); err != nil {
		return err
	}
	return ierr
}

// Write is of terminal.Screen.
func (s *screen) Write(ctx context.Context, p []byte) error {
	s.typing.Lock()
	defer s.typing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.master.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { s.master.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := s.master.Write(p)
	return err
}

// offer types an answer later, or never if too many wait: it does not block.
func (s *screen) offer(text string) {
	select {
	case s.answer <- text:
	default:
	}
}

// drain is the actor that reads the PTY, always, into the backlog: a program
// whose output nobody takes would stop.
type drain struct {
	*screen
	backlog *terminal.Backlog
	drained func() // all output was read
}

type ptyBroken struct{ err error }

func (d *drain) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		supervise.Go(c, d.read)
		supervise.Go(c, func(ctx context.Context) any {
			for {
				select {
				case text := <-d.answer:
					d.Write(ctx, []byte(text))
				case <-ctx.Done():
					return nil
				}
			}
		})
	case ptyBroken:
		supervise.Exit(c, m.err)
	}
}

func (d *drain) read(ctx context.Context) any {
	d.master.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { d.master.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := d.master.Read(buf)
		d.backlog.Write(buf[:n])
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EIO), errors.Is(err, io.EOF):
			d.drained() // EIO: nobody has the other side open any more
			return nil
		default:
			return ptyBroken{err}
		}
	}
}
