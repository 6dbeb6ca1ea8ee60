package envelope

import (
	"context"
	"log/slog"
	"time"

	"sophia/messages"
	"sophia/messages/secret"
)

// Want is what a client must be.
type Want struct {
	SHA256       string // of its executable, hex
	ControlGroup string // of the launch's unit; "" is any
}

// Socket is where the wrappers of one launch connect.
type Socket interface {
	// Accept returns the next client; it fails once the socket is closed.
	Accept() (Client, error)
	Close() error
}

// Client is one connection. The Relay talks to it from one goroutine at a time,
// except that Refuse, Kept and Close may come while Deposit waits. After Close
// every method fails soon.
type Client interface {
	// Identify says which process connected, and fails with the code of what
	// is wrong with it.
	Identify(Want) (pid int, err error)
	// Challenge sends a fresh nonce and waits, at most d, for a frame: whether it
	// is the answer, and which process sent it by the kernel's word.
	Challenge(d time.Duration) (right bool, sender int, err error)
	// Again looks at the process a second time.
	Again(Want) error
	// Envelope sends the envelope with the handle or the bearer.
	Envelope(messages.Envelope, *secret.Secret) error
	// Deposit waits without end for the bearer to come back. Any other frame,
	// and the end of the connection, is an error.
	Deposit() (*secret.Secret, error)
	// Kept acknowledges the deposit.
	Kept() error
	// Refuse says why and closes.
	Refuse(error)
	Close() error
}

// Redeemer changes a handle for the lease's bearer, once. It mints; whether it
// may is decided before by the relay, and again by the lease.
type Redeemer interface {
	Redeem(ctx context.Context, launch, lease, wrapperDigest string, handle *secret.Secret) (*secret.Secret, error)
}

// Receipts attests that a bearer works: the receipt is bound to the lease that
// the bearer's connection belongs to. bearer is its SHA-256, as it is stored.
type Receipts interface {
	Receipt(ctx context.Context, bearer [32]byte, nonce string) (messages.WorkReceipt, error)
}

// Config is what all relays of a daemon share.
type Config struct {
	// Listen makes the socket of a launch, and what it needs around it.
	Listen func(launch string) (Socket, error)
	// MCP is the URL of the daemon's MCP endpoint.
	MCP func() string
	// Broker is the path of the redemption socket.
	Broker   string
	Redeemer Redeemer
	Receipts Receipts
	// Fail ends a launch whose relay has closed by itself. Nil does nothing.
	Fail func(launch, code, reason string)
	// Log tells of every refusal: each is somebody who tried. Nil discards.
	Log *slog.Logger

	Unconsumed time.Duration // from the start until somebody is served; 0: 2 min
	Settle     time.Duration // from serving until the deposit; 0: 30 s
	Step       time.Duration // for a client's answer; 0: 5 s
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.Unconsumed, 2 * time.Minute}, {&c.Settle, 30 * time.Second}, {&c.Step, 5 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Spec is one launch's relay.
type Spec struct {
	Plan   messages.Plan
	Unit   func() messages.UnitRef // the unit whose control group clients must be in; empty until it runs. Nil: any group
	Handle *secret.Secret          // the one-use redemption handle; the relay zeroes it
}
