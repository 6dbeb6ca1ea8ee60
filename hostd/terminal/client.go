package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sophia/hostd/terminal/vt"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// welcomeTime bounds the wait for the relay's answer: others that say nothing
// may be before this viewer for as long as a hello may take.
const welcomeTime = 3 * helloTime

// leaveTime bounds the wait for the relay's end of a detached connection.
const leaveTime = 2 * time.Second

// Viewer is a person's terminal attached to an agent's.
type Viewer struct {
	Socket string
	In     *os.File // where keys come from; a terminal or not
	Out    *os.File // where output goes
	Leave  Leave    // zero: DefaultLeave
}

// Ending is how a viewer came to its end without an error.
type Ending struct {
	Detached bool // by the detach keys, or the input's end: the agent runs on
	Exit     Exit // else: how the harness ended
}

// Attach connects, spends the token and stays until the viewer detaches, the
// harness ends or ctx does. The viewer's terminal gets its modes back in every
// case. Errors: wrong_token, token_consumed, viewer_present, foreign_peer,
// terminal_unreachable, terminal_lost.
func (v Viewer) Attach(ctx context.Context, token *secret.Secret) (Ending, error) {
	if v.Leave == (Leave{}) {
		v.Leave = DefaultLeave
	}
	conn, err := dial(ctx, v.Socket)
	if err != nil {
		return Ending{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { hangUp(conn) })
	defer stop()
	if err := v.hello(conn, token); err != nil {
		return Ending{}, err
	}
	restore, err := v.raw()
	if err != nil {
		return Ending{}, err
	}
	defer restore()
	return v.run(ctx, conn)
}

func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, problem.Wrap(err, "terminal_unreachable", "There is no terminal at %s", socket).
			WithHint("The agent has ended, or its terminal was closed after wrong tokens.")
	}
	return conn.(*net.UnixConn), nil
}

func (v Viewer) hello(conn *net.UnixConn, token *secret.Secret) error {
	err := token.Use(func(b []byte) error {
		p, err := json.Marshal(Hello{Version: Protocol, Token: b, Size: v.size()})
		if err != nil {
			return err
		}
		defer clear(p)
		return WriteFrame(conn, FrameHello, p)
	})
	if err != nil {
		return lost(err)
	}
	var buf []byte
	conn.SetReadDeadline(time.Now().Add(welcomeTime))
	t, p, err := ReadFrame(conn, &buf, MaxFrame)
	conn.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return lost(err)
	case t == FrameRefused:
		return refusal(p)
	case t != FrameWelcome:
		return lost(ErrFrame)
	}
	return nil
}

func refusal(p []byte) error {
	var r Refusal
	if err := decodeJSON(p, &r); err != nil {
		return lost(err)
	}
	return &problem.Error{Code: r.Code, Message: r.Message, Hint: r.Hint}
}

func lost(err error) error {
	return problem.Wrap(err, "terminal_lost", "The connection to the agent's terminal was lost").
		WithHint("The agent may still be running: sophia agent list")
}

func (v Viewer) size() Size {
	for _, f := range []*os.File{v.Out, v.In} {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil {
			return Size{Rows: uint16(rows), Cols: uint16(cols)}
		}
	}
	return Size{}
}

// raw switches the viewer's terminal so that every key goes to the agent.
func (v Viewer) raw() (restore func(), err error) {
	fd := int(v.In.Fd())
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, problem.Wrap(err, "terminal_unusable", "This terminal can't be switched to raw mode")
	}
	return func() {
		// Answers to the agent's last queries must not be typed into the shell.
		_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
		_ = term.Restore(fd, old)
	}, nil
}

func (v Viewer) run(ctx context.Context, conn *net.UnixConn) (Ending, error) {
	// Its end makes the reader of keys and the watcher of sizes return.
	r, w, err := os.Pipe()
	if err != nil {
		return Ending{}, lost(err)
	}
	defer r.Close() // last: a worker may only now begin to look at it
	var workers sync.WaitGroup
	defer workers.Wait()
	defer w.Close()
	var sending sync.Mutex
	send := func(t Type, p []byte) error {
		sending.Lock()
		defer sending.Unlock()
		return WriteFrame(conn, t, p)
	}
	detached := make(chan struct{})
	var enough *time.Timer // for a relay that does not end the connection
	workers.Go(func() {
		if v.keys(r, send) {
			enough = time.AfterFunc(leaveTime, func() { hangUp(conn) })
			close(detached)
			// The relay reads what was typed before, then ends the connection.
			conn.CloseWrite()
		}
	})
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	stopped := make(chan struct{})
	defer close(stopped)
	defer signal.Stop(sizes)
	workers.Go(func() {
		for {
			select {
			case <-sizes:
				send(FrameResize, v.size().Encode())
			case <-stopped:
				return
			}
		}
	})
	exit, err := v.show(conn)
	select {
	case <-detached:
		enough.Stop()
		return Ending{Detached: true}, nil
	default:
	}
	if ctx.Err() != nil {
		return Ending{Detached: true}, nil
	}
	return Ending{Exit: exit}, err
}

// keys forwards what is typed until the detach keys (true), the input's end
// (true) or the end of the other side (false), which wake tells.
func (v Viewer) keys(wake *os.File, send func(Type, []byte) error) bool {
	l := leaver{Leave: v.Leave}
	in, over := int(v.In.Fd()), int32(wake.Fd())
	buf := make([]byte, 4096)
	for {
		fds := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: over, Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return true
		}
		if fds[1].Revents != 0 {
			return false
		}
		n, err := unix.Read(in, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil || n == 0:
			return true
		}
		forward, detach := l.typed(buf[:n])
		if len(forward) > 0 && send(FrameInput, forward) != nil {
			return false
		}
		if detach {
			return true
		}
	}
}

// show copies output to the viewer's terminal and, at the end, takes back the
// modes that it set there.
func (v Viewer) show(conn *net.UnixConn) (Exit, error) {
	var exit Exit
	from, err := conn.File()
	if err != nil {
		return exit, lost(err)
	}
	defer from.Close()
	tracker := vt.NewTracker()
	v.Out.WriteString("\x1b[22;0t") // push the window's title
	defer func() {
		v.Out.Write(tracker.Undo())
		v.Out.WriteString("\x1b[23;0t\r\n")
	}()
	var buf []byte
	frames := bufio.NewReaderSize(waiting(from.Fd()), 8<<10) // a short frame in one read
	for {
		t, p, err := ReadFrame(frames, &buf, MaxFrame)
		if err != nil {
			return exit, lost(err)
		}
		switch t {
		case FrameOutput:
			tracker.Write(p)
			if _, err := v.Out.Write(p); err != nil {
				return exit, lost(err)
			}
		case FrameExit:
			return exit, decodeJSON(p, &exit)
		default:
			return exit, lost(ErrFrame)
		}
	}
}

// waiting reads a socket with a thread that waits for it: a keystroke's echo is
// there sooner than by way of the scheduler. hangUp ends it.
type waiting int

func (w waiting) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(w), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		switch n, err := unix.Read(int(w), p); {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// hangUp ends a connection for those, too, that read another descriptor of it.
func hangUp(conn *net.UnixConn) {
	conn.CloseRead()
	conn.CloseWrite()
}

// Tail reads the plain text of what a launch's terminal has shown lately,
// without attaching to it.
func Tail(ctx context.Context, socket string) ([]byte, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(helloTime))
	if err := WriteFrame(conn, FrameTail, nil); err != nil {
		return nil, lost(err)
	}
	var text, buf []byte
	for {
		t, p, err := ReadFrame(conn, &buf, MaxFrame)
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, lost(err)
		case t == FrameRefused:
			return nil, refusal(p)
		case t != FrameOutput:
			return nil, lost(ErrFrame)
		}
		text = append(text, p...)
	}
}
