package envelope

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"sophia/actors/envelope"
	"sophia/hostd/channel"
	"sophia/hostd/paths"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// SocketName is the socket's name in the launch's folder.
const SocketName = "envelope.sock"

// writeBound is how long a client may leave a packet unread.
const writeBound = 5 * time.Second

// Listen makes the envelope socket in a launch's folder, and the folder, 0700.
func Listen(launchDir string) (envelope.Socket, error) {
	if err := paths.MakePrivate(launchDir); err != nil {
		return nil, err
	}
	l, err := channel.Listen(filepath.Join(launchDir, SocketName))
	if err != nil {
		return nil, err
	}
	return socket{l}, nil
}

type socket struct{ l *channel.Listener }

func (s socket) Close() error { return s.l.Close() }

func (s socket) Accept() (envelope.Client, error) {
	c, err := s.l.Accept()
	if err != nil {
		return nil, err
	}
	return &client{c: c, uid: uint32(os.Geteuid())}, nil
}

type client struct {
	c   *channel.Conn
	uid uint32

	mu   sync.Mutex
	peer *peer.Peer // until it has answered, or the connection is given up
	over bool
}

// hold keeps the checked process; drop lets go of it, for good.
func (c *client) hold(p *peer.Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		p.Close()
		return
	}
	c.peer = p
}

func (c *client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.peer != nil {
		c.peer.Close()
		c.peer = nil
	}
}

func (c *client) want(w envelope.Want) peer.Want {
	return peer.Want{UID: c.uid, SHA256: w.SHA256, ControlGroup: w.ControlGroup}
}

func (c *client) Identify(w envelope.Want) (int, error) {
	p, err := c.c.Peer()
	if err != nil {
		return 0, err
	}
	if err := p.Check(c.want(w)); err != nil {
		p.Close()
		return p.PID, err
	}
	c.hold(p)
	return p.PID, nil
}

func (c *client) Challenge(d time.Duration) (right bool, sender int, err error) {
	n := channel.NewNonce()
	if err = c.c.Challenge(n, d); err == nil {
		var f channel.Frame
		var from channel.Sender
		if f, from, err = c.c.Receive(d); err == nil {
			defer f.Zero()
			return n.Answers(f) && from.UID == c.uid, from.PID, nil
		}
	}
	c.drop()
	return false, 0, err
}

// Again is the last look at the process; it is let go of then.
func (c *client) Again(w envelope.Want) error {
	defer c.drop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer == nil {
		return problem.New("peer_gone", "the connection was given up")
	}
	return c.peer.Recheck(c.want(w))
}

func (c *client) Envelope(e messages.Envelope, s *secret.Secret) error {
	f, err := channel.Of(channel.Envelope, e, s)
	if err != nil {
		return err
	}
	return c.c.Send(f, writeBound)
}

func (c *client) Deposit() (*secret.Secret, error) {
	f, _, err := c.c.Expect(channel.Deposit, 0)
	if err != nil {
		return nil, err
	}
	if f.Secret == nil {
		return nil, problem.New("frame_malformed", "a deposit without a secret")
	}
	return f.Secret, nil
}

func (c *client) Kept() error {
	return c.c.Send(channel.Frame{Kind: channel.Deposited}, writeBound)
}

func (c *client) Refuse(why error) {
	c.drop()
	c.c.Refuse(why, writeBound)
}

func (c *client) Close() error {
	c.drop()
	return c.c.Close()
}
