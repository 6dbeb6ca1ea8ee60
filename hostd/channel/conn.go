package channel

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// Sender is who sent a packet, by SCM_CREDENTIALS.
type Sender struct {
	PID int
	UID uint32
}

// Conn is one end of a channel. Send and Receive may run beside each other;
// each of them must not run twice at a time.
type Conn struct {
	c      *net.UnixConn
	server bool
}

// Listener accepts channels.
type Listener struct{ l *net.UnixListener }

// soPassRights is SO_PASSRIGHTS of linux 6.16: without it on, descriptors are
// not received at all. Older kernels refuse the option; Receive then closes
// what arrives.
const soPassRights = 83

// Listen makes a socket of mode 0600 at path, in place of a dead one. The folder must be
// private (0700): the mode alone is not honoured by every system.
func Listen(path string) (*Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, problem.Wrap(err, "socket_not_made", "can't replace %s", path)
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return harden(raw) }}
	l, err := lc.Listen(context.Background(), "unixpacket", path)
	if err != nil {
		return nil, problem.Wrap(err, "socket_not_made", "can't listen on %s", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, problem.Wrap(err, "socket_not_made", "can't make %s private", path)
	}
	return &Listener{l.(*net.UnixListener)}, nil
}

// harden asks for the sender of every packet and for no descriptors.
func harden(raw syscall.RawConn) error {
	var err error
	ctlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, soPassRights, 0)
	})
	return errors.Join(ctlErr, err)
}

// Accept waits for the next client; it fails once the listener is closed.
func (l *Listener) Accept() (*Conn, error) {
	c, err := l.l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = harden(raw) // accepted sockets inherit it; not worth relying on
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Conn{c: c, server: true}, nil
}

// Close stops accepting and removes the socket.
func (l *Listener) Close() error { return l.l.Close() }

// Dial connects to a server of the same user.
func Dial(ctx context.Context, path string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, problem.Wrap(err, "channel_unreachable", "can't reach %s", path)
	}
	u := c.(*net.UnixConn)
	p, err := peer.Of(u)
	if err != nil {
		u.Close()
		return nil, err
	}
	defer p.Close()
	if p.UID != uint32(os.Geteuid()) {
		u.Close()
		return nil, problem.New("peer_wrong_user", "%s is served by uid %d", path, p.UID)
	}
	return &Conn{c: u}, nil
}

// Peer asks the kernel who connected. The caller closes it.
func (c *Conn) Peer() (*peer.Peer, error) { return peer.Of(c.c) }

// Close ends the connection; a Receive under way fails.
func (c *Conn) Close() error { return c.c.Close() }

// Send writes one frame within d. It does not drop the frame's secret.
func (c *Conn) Send(f Frame, d time.Duration) error {
	b, err := f.append(make([]byte, 0, MaxFrame))
	defer clear(b[:cap(b)])
	if err != nil {
		return err
	}
	if err := c.c.SetWriteDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if _, err = c.c.Write(b); err != nil {
		return problem.Wrap(err, "channel_broken", "the other end is gone or does not read")
	}
	return nil
}

// Receive reads one frame within d (0 waits without end) and says who sent it;
// the sender is known on the server's side only. The end of the connection is
// io.EOF. Codes: frame_malformed, frame_too_large, descriptors_refused,
// sender_unknown, channel_broken.
func (c *Conn) Receive(d time.Duration) (Frame, Sender, error) {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if err := c.c.SetReadDeadline(until); err != nil {
		return Frame{}, Sender{}, err
	}
	b := make([]byte, MaxFrame+1)
	defer clear(b)
	// Room for credentials and for the descriptors that one message may carry
	// (SCM_MAX_FD, 253), so that all of them are seen and closed.
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(253*4))
	n, oobn, flags, _, err := c.c.ReadMsgUnix(b, oob)
	from, ctlErr := sender(oob[:oobn])
	switch {
	case errors.Is(err, io.EOF) || err == nil && n == 0:
		return Frame{}, Sender{}, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Frame{}, Sender{}, problem.Wrap(err, "channel_silent", "the other end did not answer within %v", d)
	case err != nil:
		return Frame{}, Sender{}, problem.Wrap(err, "channel_broken", "the connection broke")
	case ctlErr != nil:
		return Frame{}, Sender{}, ctlErr
	case flags&unix.MSG_CTRUNC != 0:
		return Frame{}, Sender{}, problem.New("descriptors_refused", "a packet carried more control data than allowed")
	case flags&unix.MSG_TRUNC != 0 || n > MaxFrame:
		return Frame{}, Sender{}, problem.New("frame_too_large", "a packet has more than %d bytes", MaxFrame)
	case c.server && from.PID == 0:
		return Frame{}, Sender{}, problem.New("sender_unknown", "the kernel does not say who sent a packet")
	}
	f, err := parse(b[:n])
	return f, from, err
}

// sender reads a packet's control messages. Descriptors are closed and refused.
func sender(oob []byte) (from Sender, refuse error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return Sender{}, problem.Wrap(err, "frame_malformed", "a packet's control data can't be read")
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_SOCKET {
			continue
		}
		switch m.Header.Type {
		case unix.SCM_CREDENTIALS:
			if cred, err := unix.ParseUnixCredentials(&m); err == nil {
				from = Sender{PID: int(cred.Pid), UID: cred.Uid}
			}
		case unix.SCM_RIGHTS:
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			refuse = problem.New("descriptors_refused", "a packet carried %d descriptors; none are taken here", len(fds))
		}
	}
	return from, refuse
}
