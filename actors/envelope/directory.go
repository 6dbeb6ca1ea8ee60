package envelope

import (
	"context"
	"errors"
	"sync"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope/relay"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Directory makes the relays of a daemon and finds the one of a launch. It is
// what the broker asks; it implements broker.Redeemer and broker.Receipts.
type Directory struct {
	c  Config
	mu sync.Mutex
	m  map[string]*supervise.Ref
}

// NewDirectory returns a directory without relays.
func NewDirectory(c Config) *Directory {
	return &Directory{c: c.withDefaults(), m: map[string]*supervise.Ref{}}
}

// Relay makes the receiver of one launch's relay, for a Temporary child.
func (d *Directory) Relay(s Spec) actor.Receiver {
	return &receiver{
		d: d, c: d.c, spec: s,
		conns: map[conn]Client{}, pids: map[conn]int{}, nonces: map[conn]string{}, whys: map[conn]error{},
		replies: map[int]supervise.Reply{}, timers: map[timerKey]*supervise.Timer{},
	}
}

// Redeem changes the handle for the bearer, for the process pid. The caller
// zeroes both. Codes:
// relay_gone, handle_unknown, redemption_not_bound, handle_already_redeemed,
// and those of the Redeemer.
func (d *Directory) Redeem(ctx context.Context, launch, lease string, pid int, handle *secret.Secret) (*secret.Secret, error) {
	v, err := d.ask(ctx, launch, redeem{lease: lease, pid: pid, handle: handle})
	if err != nil {
		return nil, err
	}
	return v.(*secret.Secret), nil
}

// Receipt proves a bearer. nonce is the one that came with the envelope, so
// that a proof belongs to one serving. Codes: relay_gone, proof_refused, and
// those of Receipts.
func (d *Directory) Receipt(ctx context.Context, launch string, pid int, bearer [32]byte, nonce string) (messages.WorkReceipt, error) {
	v, err := d.ask(ctx, launch, prove{pid: pid, bearer: bearer, nonce: nonce})
	if err != nil {
		return messages.WorkReceipt{}, err
	}
	return v.(messages.WorkReceipt), nil
}

// Phase is how far a launch's credential has got; "" where there is no relay.
func (d *Directory) Phase(ctx context.Context, launch string) relay.Phase {
	v, err := d.ask(ctx, launch, phase{})
	if err != nil {
		return ""
	}
	return v.(relay.Phase)
}

func (d *Directory) ask(ctx context.Context, launch string, msg any) (any, error) {
	d.mu.Lock()
	ref := d.m[launch]
	d.mu.Unlock()
	if ref == nil {
		return nil, errGone(launch)
	}
	v, err := ref.Ask(ctx, msg)
	if errors.Is(err, supervise.ErrDown) {
		return nil, errGone(launch)
	}
	return v, err
}

func errGone(launch string) error {
	return problem.New("relay_gone", "the credential of launch %s can't be handed out any more", launch).
		WithHint("Start the agent again: sophia agent start")
}

func (d *Directory) register(launch string, ref *supervise.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.m[launch] = ref
}

func (d *Directory) remove(launch string, ref *supervise.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m[launch] == ref {
		delete(d.m, launch)
	}
}
