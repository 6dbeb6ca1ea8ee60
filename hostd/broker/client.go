package broker

import (
	"context"
	"errors"
	"io"

	"sophia/hostd/channel"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Client is an attested connection to the broker.
type Client struct{ c *channel.Conn }

// Dial connects and answers the challenge.
func Dial(ctx context.Context, path string) (*Client, error) {
	c, err := channel.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := c.Respond(stepBound, func() error { return nil }); err != nil {
		c.Close()
		return nil, closed(err)
	}
	return &Client{c}, nil
}

// Redeem changes the handle for the bearer and zeroes the handle.
func (c *Client) Redeem(r Redemption, handle *secret.Secret) (*secret.Secret, error) {
	defer handle.Zero()
	f, err := c.call(channel.Redeem, r, handle, channel.Bearer)
	if err != nil {
		return nil, err
	}
	if f.Secret == nil {
		return nil, problem.New("frame_malformed", "the broker's answer has no bearer")
	}
	return f.Secret, nil
}

// Prove shows the bearer and returns the work receipt. The caller compares it
// with what it expects.
func (c *Client) Prove(p Proof, bearer *secret.Secret) (messages.WorkReceipt, error) {
	f, err := c.call(channel.Prove, p, bearer, channel.Receipt)
	if err != nil {
		return messages.WorkReceipt{}, err
	}
	var r messages.WorkReceipt
	return r, f.Into(&r)
}

// Close ends the connection.
func (c *Client) Close() error { return c.c.Close() }

func (c *Client) call(kind channel.Kind, v any, s *secret.Secret, answer channel.Kind) (channel.Frame, error) {
	f, err := channel.Of(kind, v, s)
	if err != nil {
		return channel.Frame{}, err
	}
	if err := c.c.Send(f, stepBound); err != nil {
		return channel.Frame{}, err
	}
	got, _, err := c.c.Expect(answer, workBound+stepBound)
	return got, closed(err)
}

// closed names the end of the connection.
func closed(err error) error {
	if errors.Is(err, io.EOF) {
		return problem.Wrap(err, "broker_gone", "the broker closed the connection")
	}
	return err
}
