package ownerapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// Presence decides whether the process at the other end of a connection is the
// packaged tray.
type Presence interface {
	// Check looks at the peer as the kernel reports it, and says why not in a
	// problem.Error. Nothing is sent.
	Check(conn *net.UnixConn) (Peer, error)
}

// Peer is a process that passed Check.
type Peer interface {
	PID() int
	// Challenge makes the checked process itself answer over the connection.
	// The connection's deadline bounds it.
	Challenge(conn *net.UnixConn) error
	Close()
}

// launchUnits is how the units of managed launches begin (hostd/unit).
const launchUnits = "/sophia-launch-"

// KernelPresence takes the program with this SHA-256 (hex) for the tray: the
// same user, the very bytes, not in a managed launch's control group, at a
// terminal where the owner is, and answering for itself.
type KernelPresence struct {
	SHA256 string
	// Terminal says why the owner is not at a terminal; hostd/login.Checker.Check.
	// nil: any terminal will do, and none.
	Terminal func(ctx context.Context, t peer.Terminal) error
}

// Check implements Presence. Codes: those of peer.Check, tray_inside_launch, and
// those of Terminal.
func (k KernelPresence) Check(conn *net.UnixConn) (Peer, error) {
	p, err := peer.Of(conn)
	if err != nil {
		return nil, err
	}
	want := peer.Want{UID: uint32(os.Geteuid()), SHA256: k.SHA256}
	if err := p.Check(want); err != nil {
		p.Close()
		return nil, err
	}
	// A host without systemd has no such group, and no launches either.
	if group, err := p.ControlGroup(); err == nil && strings.Contains(group, launchUnits) {
		p.Close()
		return nil, problem.New("tray_inside_launch", "the tray runs inside a managed agent's unit (%s)", group).
			WithHint("Approving is for the owner: run the tray in a terminal of your own.")
	}
	if err := k.atTerminal(p); err != nil {
		p.Close()
		return nil, err
	}
	return &kernelPeer{Peer: p, want: want}, nil
}

func (k KernelPresence) atTerminal(p *peer.Peer) error {
	if k.Terminal == nil {
		return nil
	}
	t, err := p.Terminal()
	if err != nil {
		return err
	}
	return k.Terminal(context.Background(), t) // it bounds itself
}

type kernelPeer struct {
	*peer.Peer
	want peer.Want
}

func (k *kernelPeer) PID() int { return k.Peer.PID }

// The challenge is 32 random bytes; the answer is trayAnswer and a hash of
// them, sent by the checked process by the kernel's word. A process that was
// handed a stolen connection as its standard output answers nothing by
// accident: 0xF5 begins no text.
const nonceSize = 32

var trayAnswer = []byte{0xF5, 'S', 'T', 1}

func answerTo(nonce []byte) []byte {
	sum := sha256.Sum256(append([]byte("sophia tray answer\n"), nonce...))
	return append(append([]byte(nil), trayAnswer...), sum[:]...)
}

func (k *kernelPeer) Challenge(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	// Before the nonce is sent, so that no answer can be without credentials.
	var optErr error
	if err := raw.Control(func(fd uintptr) { optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return err
	}
	if optErr != nil {
		return optErr
	}
	nonce := make([]byte, nonceSize)
	rand.Read(nonce)
	if _, err := conn.Write(nonce); err != nil {
		return err
	}
	answer := make([]byte, 0, len(trayAnswer)+sha256.Size)
	for len(answer) < cap(answer) {
		n, sender, err := readAttested(conn, answer[len(answer):cap(answer)])
		if err != nil {
			return problem.Wrap(err, "challenge_failed", "process %d did not answer the challenge", k.PID())
		}
		if int(sender.Pid) != k.PID() || sender.Uid != k.want.UID {
			return problem.New("challenge_failed", "process %d answered in place of process %d", sender.Pid, k.PID())
		}
		answer = answer[:len(answer)+n]
	}
	if subtle.ConstantTimeCompare(answer, answerTo(nonce)) != 1 {
		return problem.New("challenge_failed", "process %d gave a wrong answer to the challenge", k.PID())
	}
	return k.Recheck(k.want)
}

// readAttested reads bytes that one process sent: unix(7) never joins data of
// different senders in one read once credentials are asked for.
func readAttested(conn *net.UnixConn, into []byte) (int, *unix.Ucred, error) {
	// Room for credentials alone: descriptors don't fit and are dropped.
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := conn.ReadMsgUnix(into, oob)
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, io.EOF
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, nil, err
	}
	for i := range msgs {
		if sender, err := unix.ParseUnixCredentials(&msgs[i]); err == nil {
			return n, sender, nil
		}
	}
	return 0, nil, problem.New("sender_unknown", "the kernel does not say who answered")
}

// answerChallenge is the tray's side of Challenge. seal is run before the
// answer.
func answerChallenge(conn *net.UnixConn, seal func() error) error {
	nonce := make([]byte, nonceSize)
	if _, err := io.ReadFull(conn, nonce); err != nil {
		return err
	}
	if err := seal(); err != nil {
		return err
	}
	_, err := conn.Write(answerTo(nonce))
	return err
}
