package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
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

// caller is a connection, and what came with it. When the actor's life ends, it
// is closed wherever it is then: in a worker, a message, or nowhere.
type caller struct {
	conn    *net.UnixConn
	release func() bool // of the end of the actor's life

	mu    sync.Mutex
	glass *glass // the viewer's terminal, if it came
	gone  bool
}

func newCaller(life context.Context, conn *net.UnixConn) *caller {
	c := &caller{conn: conn}
	c.release = context.AfterFunc(life, c.close)
	return c
}

// brings takes a terminal over.
func (c *caller) brings(glass *glass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		glass.Close()
		return
	}
	c.glass = glass
}

// yields gives the terminal away.
func (c *caller) yields() (glass *glass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		glass, c.glass = c.glass, nil
	}
	return glass
}

func (c *caller) hangUp() {
	c.release()
	c.close()
}

func (c *caller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.glass != nil {
		c.glass.Close()
	}
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
		switch size := m.Size.Clamp(r.Size); {
		case m.v != r.viewer:
		case size == r.size: // nothing but a fresh picture
			r.repaint(c, size)
		default:
			r.resize(size)
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
	v.cut.Store(true)
	v.part() // before its terminal is closed: somebody has to answer what is asked
	v.hangUp()
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

// greet checks the peer's uid and reads its first frame, and the terminal that
// comes with it.
func greet(from *caller) any {
	g, conn := greeted{caller: from}, from.conn
	pid, err := ownPeer(conn)
	if err != nil {
		from.refuse(err)
		return g
	}
	conn.SetDeadline(time.Now().Add(helloTime))
	var buf []byte
	rights := &rights{conn: conn}
	t, p, err := ReadFrame(rights, &buf, helloSize)
	defer clear(buf[:cap(buf)])
	glass, unfit := rights.terminal(pid)
	if glass != nil {
		from.brings(glass)
	}
	switch {
	case err != nil || unfit != nil:
	case t == FrameTail:
		g.tail = true
		return g
	case t == FrameHello:
		h := &Hello{}
		if decodeJSON(p, h) == nil && h.Version == Protocol {
			if h.Leave == (Leave{}) {
				h.Leave = DefaultLeave
			}
			conn.SetDeadline(time.Time{})
			if glass != nil {
				glass.line = h.Line
			}
			g.hello = h
			return g
		}
	}
	from.refuse(problem.New("terminal_protocol", "This is not the terminal protocol, version %d", Protocol).
		WithHint("Use the sophia program of the same version as the daemon."))
	return g
}

func ownPeer(conn *net.UnixConn) (pid int, err error) {
	from, err := peer.Credentials(conn)
	if err != nil || int(from.Uid) != os.Geteuid() {
		return 0, problem.Wrap(err, "foreign_peer", "This terminal belongs to another user")
	}
	return int(from.Pid), nil
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
	frames, err := PortOf(m.conn)
	if err == nil {
		if err = r.Gate.Try(m.hello.Token); err != nil {
			frames.Close()
		}
	}
	clear(m.hello.Token)
	if err != nil {
		if r.Gate.Closed() {
			r.Listener.Close() // and removes the socket, before anybody is told
		}
		supervise.Go(c, func(context.Context) any { m.refuse(err); return nil })
		return
	}
	r.attach(c, newViewer(supervise.Context(c), frames, m.yields(), r.Backlog.Attach(), m.hello), m.hello.Size)
	m.hangUp() // the ports go on
	if r.Attached != nil {
		r.Attached()
	}
}

func (r *relay) attach(c *actor.Context, v *viewer, size Size) {
	r.viewer = v
	self := supervise.Self(c)
	supervise.Go(c, func(context.Context) any {
		r.send(v)
		return left{v}
	})
	supervise.Go(c, func(context.Context) any {
		r.receive(v, self)
		v.part()
		return nil
	})
	if v.glass != nil {
		supervise.Go(c, func(context.Context) any {
			r.listen(v)
			v.part()
			return nil
		})
	}
	r.repaint(c, size.Clamp(r.Size))
}

// repaint lets the program paint anew, which it does only when the size changes:
// so it changes twice.
func (r *relay) repaint(c *actor.Context, want Size) {
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
