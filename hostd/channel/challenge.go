package channel

import (
	"crypto/rand"
	"crypto/subtle"
	"time"

	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// NonceSize is a challenge's length in bytes.
const NonceSize = 32

// Nonce is a challenge. Use each once.
type Nonce [NonceSize]byte

// NewNonce returns a fresh one.
func NewNonce() (n Nonce) {
	rand.Read(n[:])
	return n
}

// Challenge sends the nonce.
func (c *Conn) Challenge(n Nonce, d time.Duration) error {
	return c.Send(Frame{Kind: Challenge, Body: n[:]}, d)
}

// Answers says whether f is the answer to the nonce.
func (n Nonce) Answers(f Frame) bool {
	return f.Kind == Answer && f.Secret == nil && subtle.ConstantTimeCompare(f.Body, n[:]) == 1
}

// Attest is the whole server side of the diagram in doc.go: it returns the
// peer once it is what is wanted and has shown that it holds this very
// connection. Each step may take d. Codes: those of peer.Check and Recheck,
// and challenge_failed.
func Attest(c *Conn, want peer.Want, d time.Duration) (*peer.Peer, error) {
	p, err := c.Peer()
	if err != nil {
		return nil, err
	}
	if err := attest(c, p, want, d); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func attest(c *Conn, p *peer.Peer, want peer.Want, d time.Duration) error {
	if err := p.Check(want); err != nil {
		return err
	}
	n := NewNonce()
	if err := c.Challenge(n, d); err != nil {
		return err
	}
	f, from, err := c.Receive(d)
	if err != nil {
		return problem.Wrap(err, "challenge_failed", "process %d did not answer the challenge", p.PID)
	}
	defer f.Zero()
	if !n.Answers(f) {
		return problem.New("challenge_failed", "process %d gave a wrong answer to the challenge", from.PID)
	}
	if from.PID != p.PID || from.UID != p.UID {
		return problem.New("challenge_failed", "process %d answered in place of process %d", from.PID, p.PID).
			WithHint("Another process holds the wrapper's connection. It was given nothing.")
	}
	return p.Recheck(want)
}

// Respond is the client's side: it waits for the challenge, calls ready, and
// answers. ready is where a program makes itself undumpable: it has been
// looked at by then, and has received nothing secret yet.
func (c *Conn) Respond(d time.Duration, ready func() error) error {
	f, _, err := c.Receive(d)
	if err != nil {
		return err
	}
	defer f.Zero()
	if f.Kind == Refused {
		return f.Refusal()
	}
	if f.Kind != Challenge || len(f.Body) != NonceSize {
		return problem.New("frame_malformed", "expected a challenge")
	}
	if err := ready(); err != nil {
		return err
	}
	return c.Send(Frame{Kind: Answer, Body: f.Body}, d)
}

// Refuse tells the client why and ends the connection.
func (c *Conn) Refuse(why error, d time.Duration) {
	p := *problem.Of(why)
	if f, err := Of(Refused, p, nil); err == nil {
		_ = c.Send(f, d)
	}
	_ = c.Close()
}

// Expect receives a frame of the given kind; a refusal becomes its error.
func (c *Conn) Expect(kind Kind, d time.Duration) (Frame, Sender, error) {
	f, from, err := c.Receive(d)
	if err != nil {
		return Frame{}, from, err
	}
	if f.Kind == kind {
		return f, from, nil
	}
	defer f.Zero()
	if f.Kind == Refused {
		return Frame{}, from, f.Refusal()
	}
	return Frame{}, from, problem.New("frame_malformed", "expected a frame of kind %d, got %d", kind, f.Kind)
}

// Refusal is the error that a frame of kind Refused carries.
func (f Frame) Refusal() error {
	var p problem.Error
	if err := f.Into(&p); err != nil || p.Code == "" {
		return problem.New("frame_malformed", "a refusal without a code")
	}
	return &p
}
