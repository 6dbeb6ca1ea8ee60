package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/hostd/peer"
	"sophia/messages/problem"
)

const (
	helloTime = 10 * time.Second // for the first frame
	helloSize = 4 << 10          // of the first frame, bytes
	inputSize = 16 << 10         // of a keystroke frame, bytes
	greeting  = 32               // connections that have not said hello yet
	redraw    = 80 * time.Millisecond
)

// Screen is the harness's side: its PTY.
type Screen interface {
	// Write types keystrokes. It may wait while the program does not read, until
	// ctx ends.
	Write(ctx context.Context, p []byte) error
	Resize(Size) error
}

// Relay serves one launch's terminal.
type Relay struct {
	Listener *net.UnixListener // see Listen; outlives the actor
	Gate     *Gate             // outlives the actor
	Backlog  *Backlog          // outlives the actor
	Screen   Screen
	Size     Size   // before a viewer has said its own
	Told     func() // called when a viewer was told the exit; may be nil
	Attached func() // called when a viewer was attached; may be nil
}

// Listen makes the socket, mode 0600. An older one must not be there: each
// launch has a folder of its own.
func Listen(path string) (*net.UnixListener, error) {
	old := unix.Umask(0o177) // the socket is never open to others, not even for a moment
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, problem.Wrap(err, "terminal_socket_failed", "The terminal's socket %s can't be made", path)
	}
	return l, nil
}

// New returns a life of the actor that serves the socket. Restarted, it goes on
// with the same socket, token and backlog; its viewer is disconnected.
func (r *Relay) New() actor.Receiver { return &relay{Relay: r} }

type relay struct {
	*Relay
	viewer *viewer
	size   Size
	places chan struct{}
}

type viewer struct {
	conn *net.UnixConn
	port Port // of conn
	feed *Feed
}

// caller is a connection that is no viewer yet. When the actor's life ends, it
// is closed wherever it is then: in a worker, a message, or nowhere.
type caller struct {
	conn    *net.UnixConn
	release func() bool // it is somebody else's from now on
}

func newCaller(life context.Context, conn *net.UnixConn) *caller {
	return &caller{conn, context.AfterFunc(life, func() { conn.Close() })}
}

func (c *caller) hangUp() {
	c.release()
	c.conn.Close()
}

// Messages of the actor to itself.
type (
	arrived struct{ *caller }
	greeted struct {
		*caller
		hello *Hello
		tail  bool
	}
	resized struct {
		v *viewer
		Size
	}
	left   struct{ v *viewer }
	settle struct{}
	broken struct{ err error }
)

func (r *relay) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		r.places = make(chan struct{}, greeting)
		r.size = r.Size
		self := supervise.Self(c)
		supervise.Go(c, func(ctx context.Context) any { return r.accept(ctx, self) })
	case actor.Stopped:
		if r.viewer != nil {
			r.drop(r.viewer)
		}
	case broken:
		supervise.Exit(c, m.err)
	case arrived:
		supervise.Go(c, func(context.Context) any { return greet(m.caller) })
	case greeted:
		<-r.places // never waits: its own place is in there
		r.greeted(c, m)
	case resized:
		if m.v == r.viewer {
			r.resize(m.Size)
		}
	case settle:
		r.resize(r.size)
	case left:
		if m.v == r.viewer {
			r.drop(m.v)
			r.viewer = nil
		}
	}
}

func (r *relay) drop(v *viewer) {
	v.conn.Close()
	v.feed.Detach()
	r.Gate.Left()
}

// accept hands connections over until the actor or the socket ends.
func (r *relay) accept(ctx context.Context, self *supervise.Ref) any {
	r.Listener.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { r.Listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		select {
		case r.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := r.Listener.AcceptUnix()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil:
			return broken{err}
		}
		from := newCaller(ctx, conn)
		if self.Send(arrived{from}) != nil {
			from.hangUp()
			return nil
		}
	}
}

// greet checks the peer's uid and reads its first frame.
func greet(from *caller) any {
	g, conn := greeted{caller: from}, from.conn
	if err := ownPeer(conn); err != nil {
		from.refuse(err)
		return g
	}
	conn.SetDeadline(time.Now().Add(helloTime))
	var buf []byte
	t, p, err := ReadFrame(conn, &buf, helloSize)
	defer clear(buf[:cap(buf)])
	switch {
	case err != nil:
	case t == FrameTail:
		g.tail = true
		return g
	case t == FrameHello:
		h := &Hello{}
		if decodeJSON(p, h) == nil && h.Version == Protocol {
			conn.SetDeadline(time.Time{})
			g.hello = h
			return g
		}
	}
	from.refuse(problem.New("terminal_protocol", "This is not the terminal protocol, version %d", Protocol).
		WithHint("Use the sophia program of the same version as the daemon."))
	return g
}

func ownPeer(conn *net.UnixConn) error {
	if from, err := peer.Credentials(conn); err != nil || int(from.Uid) != os.Geteuid() {
		return problem.Wrap(err, "foreign_peer", "This terminal belongs to another user")
	}
	return nil
}

func (c *caller) refuse(err error) {
	p := problem.Of(err)
	b, _ := json.Marshal(Refusal{Code: p.Code, Message: p.Message, Hint: p.Hint})
	c.conn.SetDeadline(time.Now().Add(helloTime))
	WriteFrame(c.conn, FrameRefused, b)
	c.hangUp()
}

func (r *relay) greeted(c *actor.Context, m greeted) {
	switch {
	case m.tail:
		text := r.Backlog.Text()
		supervise.Go(c, func(context.Context) any {
			defer m.hangUp()
			for len(text) > 0 {
				n := min(len(text), MaxFrame)
				if WriteFrame(m.conn, FrameOutput, text[:n]) != nil {
					return nil
				}
				text = text[n:]
			}
			return nil
		})
		return
	case m.hello == nil:
		return
	}
	port, err := NewPort(m.conn)
	if err == nil {
		err = r.Gate.Try(m.hello.Token)
	}
	clear(m.hello.Token)
	if err != nil {
		if r.Gate.Closed() {
			r.Listener.Close() // and removes the socket, before anybody is told
		}
		supervise.Go(c, func(context.Context) any { m.refuse(err); return nil })
		return
	}
	r.attach(c, &viewer{m.conn, port, r.Backlog.Attach()}, m.hello.Size)
	m.release() // the viewer's workers close it
	if r.Attached != nil {
		r.Attached()
	}
}

func (r *relay) attach(c *actor.Context, v *viewer, size Size) {
	r.viewer = v
	self := supervise.Self(c)
	supervise.Go(c, func(ctx context.Context) any {
		r.send(ctx, v)
		return left{v}
	})
	supervise.Go(c, func(ctx context.Context) any {
		r.receive(ctx, v, self)
		return left{v}
	})
	// A program paints anew only when the size changes, so it changes twice.
	want := size.Clamp(r.Size)
	other := Size{Rows: want.Rows, Cols: want.Cols - 1}
	if other.Cols < MinCols {
		other.Cols = want.Cols + 1
	}
	r.resize(other)
	r.size = want
	supervise.After(c, redraw, settle{})
}

func (r *relay) resize(s Size) {
	s = s.Clamp(r.Size)
	if r.Screen.Resize(s) == nil {
		r.Backlog.Resize(s)
	}
	r.size = s
}

// send writes output until the end. A viewer that does not read blocks this
// worker and nothing else.
func (r *relay) send(ctx context.Context, v *viewer) {
	stop := context.AfterFunc(ctx, func() { v.conn.Close() })
	defer stop()
	if WriteFrame(v.port, FrameWelcome, nil) != nil {
		return
	}
	var buf []byte
	for {
		out, more := v.feed.Next(ctx, buf)
		for p := out; len(p) > 0; {
			n := min(len(p), MaxFrame)
			if WriteFrame(v.port, FrameOutput, p[:n]) != nil {
				return
			}
			p = p[n:]
		}
		if !more {
			break
		}
		buf = out
	}
	if exit, over := v.feed.Exit(); over && ctx.Err() == nil {
		b, _ := json.Marshal(exit)
		if WriteFrame(v.port, FrameExit, b) == nil && r.Told != nil {
			r.Told()
		}
	}
}

// receive forwards keystrokes and sizes until the viewer ends or breaks the
// protocol.
func (r *relay) receive(ctx context.Context, v *viewer, self *supervise.Ref) {
	stop := context.AfterFunc(ctx, func() { v.conn.Close() })
	defer stop()
	var buf []byte
	frames := bufio.NewReaderSize(v.port, 1<<10) // a keystroke in one read
	for {
		t, p, err := ReadFrame(frames, &buf, inputSize)
		if err != nil {
			return
		}
		switch t {
		case FrameInput:
			if r.Screen.Write(ctx, p) != nil {
				return
			}
		case FrameResize:
			size, err := DecodeSize(p)
			if err != nil || self.Send(resized{v, size}) != nil {
				return
			}
		default:
			return
		}
	}
}
