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
	stop := context.AfterFunc(ctx, func() { conn.Close() })
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
	relay, err := NewPort(conn)
	if err != nil {
		return Ending{}, lost(err)
	}
	in := v.keyboard()
	var workers sync.WaitGroup
	defer workers.Wait()
	stopped := make(chan struct{})
	defer in.Close()
	defer close(stopped)
	var sending sync.Mutex
	send := func(t Type, p []byte) error {
		sending.Lock()
		defer sending.Unlock()
		return WriteFrame(relay, t, p)
	}
	detached := make(chan struct{})
	var enough *time.Timer // for a relay that does not end the connection
	workers.Go(func() {
		if !v.keys(in, send) {
			return
		}
		select {
		case <-stopped:
		default:
			enough = time.AfterFunc(leaveTime, func() { conn.Close() })
			close(detached)
			// The relay reads what was typed before, then ends the connection.
			conn.CloseWrite()
		}
	})
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
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
	exit, err := v.show(relay)
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

// keyboard is what is typed. Closing it ends a read.
func (v Viewer) keyboard() io.ReadCloser {
	if f, p, ok := openAgain(v.In, os.O_RDONLY); ok {
		return struct {
			io.Reader
			io.Closer
		}{p, f}
	}
	r, w := io.Pipe()
	go func() { // until the next key at the latest: nothing else ends this read
		_, err := io.Copy(w, v.In)
		w.CloseWithError(err)
	}()
	return r
}

// keys forwards what is typed until the detach keys or the input's end (true),
// or the end of the other side (false).
func (v Viewer) keys(in io.Reader, send func(Type, []byte) error) bool {
	l := leaver{Leave: v.Leave}
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if err != nil {
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
func (v Viewer) show(relay io.Reader) (Exit, error) {
	var exit Exit
	var out io.Writer = v.Out
	if f, p, ok := openAgain(v.Out, os.O_WRONLY); ok {
		defer f.Close()
		out = p
	}
	tracker := vt.NewTracker()
	io.WriteString(out, "\x1b[22;0t") // push the window's title
	defer func() {
		out.Write(tracker.Undo())
		io.WriteString(out, "\x1b[23;0t\r\n")
	}()
	var buf []byte
	frames := bufio.NewReaderSize(relay, 8<<10) // a short frame in one read
	for {
		t, p, err := ReadFrame(frames, &buf, MaxFrame)
		if err != nil {
			return exit, lost(err)
		}
		switch t {
		case FrameOutput:
			tracker.Write(p)
			if _, err := out.Write(p); err != nil {
				return exit, lost(err)
			}
		case FrameExit:
			return exit, decodeJSON(p, &exit)
		default:
			return exit, lost(ErrFrame)
		}
	}
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
