package wrapper

import (
	"context"
	"errors"
	"io"
	"time"

	"sophia/hostd/channel"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Holding is an envelope that was received. Its connection stays open: the
// relay notices by it that the wrapper has ended, and the wrapper that the
// lease has.
type Holding struct {
	messages.Envelope
	Secret *secret.Secret // the handle, or, where Reused, the bearer; the caller zeroes it
	c      *channel.Conn
}

// fetchBound is how long the relay may take for a step: another wrapper may be
// settling first.
const fetchBound = 2 * time.Minute

// writeBound is how long the relay may leave a packet unread.
const writeBound = 5 * time.Second

// Fetch connects to a launch's socket, answers the challenge and returns the
// envelope. ready is called between the relay's look at this process and the
// answer. A refusal comes back as the relay's own error.
func Fetch(ctx context.Context, path, launch string, ready func() error) (*Holding, error) {
	c, err := channel.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	h, err := fetch(c, launch, ready)
	if err != nil {
		c.Close()
		if errors.Is(err, io.EOF) {
			err = problem.Wrap(err, "relay_gone", "the relay closed the connection")
		}
		return nil, err
	}
	return h, nil
}

func fetch(c *channel.Conn, launch string, ready func() error) (*Holding, error) {
	if err := c.Respond(fetchBound, ready); err != nil {
		return nil, err
	}
	f, _, err := c.Expect(channel.Envelope, fetchBound)
	if err != nil {
		return nil, err
	}
	h := &Holding{Secret: f.Secret, c: c}
	if err := f.Into(&h.Envelope); err != nil {
		f.Zero()
		return nil, err
	}
	if h.Secret == nil || h.Launch != launch {
		f.Zero()
		return nil, problem.New("envelope_mismatch", "the envelope on this socket is for launch %s, not %s", h.Launch, launch)
	}
	return h, nil
}

// Deposit gives the proven bearer to the relay and waits until it is kept. The
// caller keeps its own.
func (h *Holding) Deposit(bearer *secret.Secret) error {
	if err := h.c.Send(channel.Frame{Kind: channel.Deposit, Secret: bearer}, writeBound); err != nil {
		return err
	}
	_, _, err := h.c.Expect(channel.Deposited, writeBound)
	return err
}

// Wait returns when the relay ends the connection, with its reason; io.EOF when
// it gave none, as after a crash.
func (h *Holding) Wait() error {
	f, _, err := h.c.Expect(channel.Refused, 0)
	if err != nil {
		return err
	}
	return f.Refusal()
}

// Close ends the connection.
func (h *Holding) Close() error { return h.c.Close() }
