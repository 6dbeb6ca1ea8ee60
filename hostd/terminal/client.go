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

	"sophia/hostd/peer"
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
	// Host is the process that must serve the socket, 0 if there is none any
	// more. It alone is given the terminal, to read and write itself: what the
	// agent can reach is the socket's path. nil or an error: all goes in frames,
	// through this process.
	Host func(ctx context.Context) (pid int, err error)
}

// Ending is how a viewer came to its end without an error.
type Ending struct {
	Detached bool // by the detach keys, or the input's end: the agent runs on
	Exit     Exit // else: how the harness ended
}

// Attach connects, spends the token and stays until the viewer detaches, the
// harness ends or ctx does. The viewer's terminal gets its modes back in every
// case. Errors: wrong_token, token_consumed, viewer_present, foreign_peer,
// terminal_impostor, terminal_unreachable, terminal_lost.
func (v Viewer) Attach(ctx context.Context, token *secret.Secret) (Ending, error) {
	conn, err := dial(ctx, v.Socket)
	if err != nil {
		return Ending{}, err
	}
	defer conn.Close()
	genuine, err := v.genuine(ctx, conn)
	if err != nil {
		return Ending{}, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	line, err := v.raw() // before: what is typed from now on is the agent's
	if err != nil {
		return Ending{}, err
	}
	if line != nil {
		defer line.restore()
	}
	glass, handed := -1, false
	if genuine {
		if glass, handed = v.glass(); handed {
			defer unix.Close(glass)
		}
	}
	if err := v.hello(conn, token, line, glass); err != nil {
		return Ending{}, err
	}
	if line != nil {
		_ = line.raw(false) // hung up since: there is nobody to press keys
	}
	if !stop() {
		return Ending{Detached: true}, nil
	}
	return v.run(ctx, conn, line, handed)
}

// genuine says that the launch's host serves the connection. Nothing else is
// said to another process: not the token either.
func (v Viewer) genuine(ctx context.Context, conn *net.UnixConn) (bool, error) {
	from, err := peer.Credentials(conn)
	if err != nil {
		return false, lost(err)
	}
	if int(from.Uid) != os.Geteuid() {
		return false, problem.New("foreign_peer", "Another user serves the terminal at %s", v.Socket)
	}
	if v.Host == nil {
		return false, nil
	}
	switch pid, err := v.Host(ctx); {
	case err != nil, from.Pid == 0: // of a PID namespace that is not seen from here
		return false, nil
	case pid == 0:
		return false, unreachable(nil, v.Socket)
	case pid != int(from.Pid):
		return false, problem.New("terminal_impostor", "Process %d serves the terminal at %s, and it is not the agent's host", from.Pid, v.Socket).
			WithHint("Something has put its own socket in the place of the terminal's; nothing was sent to it. Stop the agent, and look what process that is.")
	}
	return true, nil
}

// glass opens the viewer's terminal once more, for the relay. ok is false when
// it is none, two, or one that somebody else opened for this process.
func (v Viewer) glass() (fd int, ok bool) {
	device := func(f *os.File) (uint32, error) { return unix.IoctlGetUint32(int(f.Fd()), unix.TIOCGDEV) }
	in, err := device(v.In)
	if err != nil {
		return -1, false
	}
	if out, err := device(v.Out); err != nil || in != out {
		return -1, false
	}
	return reopen(v.In, unix.O_RDWR)
}

func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, unreachable(err, socket)
	}
	return conn.(*net.UnixConn), nil
}

func unreachable(err error, socket string) error {
	return problem.Wrap(err, "terminal_unreachable", "There is no terminal at %s", socket).
		WithHint("The agent has ended, or its terminal was closed after wrong tokens.")
}

// hello spends the token, and passes the terminal if there is one.
func (v Viewer) hello(conn *net.UnixConn, token *secret.Secret, line *line, glass int) error {
	h := Hello{Version: Protocol, Leave: v.Leave, Size: v.size()}
	var to io.Writer = conn
	if glass >= 0 {
		to, h.Line = sender{conn, glass}, &line.old
	}
	err := token.Use(func(b []byte) error {
		h.Token = b
		p, err := json.Marshal(h)
		if err != nil {
			return err
		}
		defer clear(p)
		return WriteFrame(to, FrameHello, p)
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

// raw switches the viewer's terminal so that every key goes to the agent, but
// for those that make signals. It returns nil for what is no terminal.
func (v Viewer) raw() (*line, error) {
	l, err := lineOf(int(v.In.Fd()))
	if l == nil || err != nil {
		return nil, err
	}
	return l, l.raw(true)
}

// run stays until the relay ends the connection. With the terminal handed over
// it says sizes, and waits.
func (v Viewer) run(ctx context.Context, conn *net.UnixConn, line *line, handed bool) (Ending, error) {
	relay, err := PortOf(conn)
	if err != nil {
		return Ending{}, lost(err)
	}
	conn.Close() // nothing waits for it any more
	var workers sync.WaitGroup
	defer workers.Wait()
	defer relay.Close() // ends their writes
	stopped := make(chan struct{})
	defer close(stopped)
	left := make(chan struct{})
	leave := sync.OnceFunc(func() {
		close(left)
		// The relay reads what was typed before, takes the modes back and ends the
		// connection.
		relay.CloseWrite()
		relay.SetReadDeadline(time.Now().Add(leaveTime + time.Second))
	})
	stop := context.AfterFunc(ctx, leave)
	defer stop()
	var sending sync.Mutex
	send := func(t Type, p []byte) error {
		sending.Lock()
		defer sending.Unlock()
		return WriteFrame(relay, t, p)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	workers.Go(func() {
		for {
			select {
			case sig := <-signals:
				if sig == unix.SIGCONT && line != nil { // its shell has had the line meanwhile
					_ = line.raw(false)
				}
				send(FrameResize, v.size().Encode())
			case <-stopped:
				return
			}
		}
	})
	if !handed {
		in := v.keyboard()
		defer in.Close()
		workers.Go(func() {
			buf := make([]byte, 4<<10) // whole keys at a time
			for {
				n, err := in.Read(buf)
				if err != nil {
					leave()
					return
				}
				if send(FrameInput, buf[:n]) != nil {
					return
				}
			}
		})
	}
	ending, err := v.show(relay)
	select {
	case <-left:
		return Ending{Detached: true}, nil
	default:
		return ending, err
	}
}

// keyboard is what is typed. Closing it ends a read.
func (v Viewer) keyboard() io.ReadCloser {
	if p, ok := openAgain(v.In, os.O_RDONLY); ok {
		return p
	}
	r, w := io.Pipe()
	go func() { // until the next key at the latest: nothing else ends this read
		_, err := io.Copy(w, v.In)
		w.CloseWithError(err)
	}()
	return r
}

// show copies output to the viewer's terminal. A relay that comes to no end
// leaves it to the viewer to take back the modes that are set there.
func (v Viewer) show(relay io.Reader) (Ending, error) {
	var out io.Writer = v.Out
	if p, ok := openAgain(v.Out, os.O_WRONLY); ok {
		defer p.Close()
		out = p
	}
	var undo, buf []byte
	frames := bufio.NewReaderSize(relay, 8<<10) // a short frame in one read
	for {
		t, p, err := ReadFrame(frames, &buf, MaxFrame)
		if err == nil {
			switch t {
			case FrameUndo:
				undo = append(undo[:0], p...)
				continue
			case FrameOutput:
				if _, err = out.Write(p); err == nil {
					continue
				}
			case FrameLeft:
				return Ending{Detached: true}, nil
			case FrameExit:
				var ending Ending
				err := decodeJSON(p, &ending.Exit)
				return ending, err
			default:
				err = ErrFrame
			}
		}
		out.Write(undo)
		return Ending{}, lost(err)
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
