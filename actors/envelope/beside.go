package envelope

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/secret"
)

// accept hands each client to the actor until the socket is closed.
func (r *receiver) accept(c *actor.Context) {
	self, socket, pouch := supervise.Self(c), r.socket, &r.pouch
	supervise.Go(c, func(context.Context) any {
		for {
			client, err := socket.Accept()
			if err != nil {
				return unless(pouch, stopped{err})
			}
			pouch.keep(client)
			if err := self.Send(accepted{client}); err != nil { // full or down
				pouch.shut(client)
			}
		}
	})
}

// identify looks at a client once it is known which unit it must be in: a
// wrapper can be quicker than the news that its unit runs.
func (r *receiver) identify(c *actor.Context, id conn) {
	client, spec := r.conns[id], r.spec
	supervise.Go(c, func(ctx context.Context) any {
		want, ok := wantOf(ctx, spec)
		if !ok {
			return nil
		}
		pid, err := client.Identify(want)
		return identified{id, pid, err}
	})
}

// unitPoll is how often it is looked whether the unit is known.
const unitPoll = 20 * time.Millisecond

func wantOf(ctx context.Context, s Spec) (Want, bool) {
	want := Want{SHA256: s.Plan.PeerDigest}
	if s.Unit == nil {
		return want, true
	}
	tick := time.NewTicker(unitPoll)
	defer tick.Stop()
	for {
		if want.ControlGroup = s.Unit().ControlGroup; want.ControlGroup != "" {
			return want, true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return want, false
		}
	}
}

func (r *receiver) challenge(c *actor.Context, id conn) {
	client, spec, d := r.conns[id], r.spec, r.c.Step
	supervise.Go(c, func(ctx context.Context) any {
		right, sender, err := client.Challenge(d)
		if err != nil {
			return answered{conn: id, silent: err}
		}
		want, ok := wantOf(ctx, spec)
		if !ok {
			return answered{conn: id, silent: ctx.Err()}
		}
		return answered{conn: id, right: right, sender: sender, err: client.Again(want)}
	})
}

// send gives a client its envelope, zeroes s, and waits for the deposit.
func (r *receiver) send(c *actor.Context, id conn, e messages.Envelope, s *secret.Secret) {
	client, pouch := r.conns[id], &r.pouch
	supervise.Go(c, func(context.Context) any {
		if s == nil {
			return lost{id}
		}
		err := client.Envelope(e, s)
		s.Zero()
		pouch.leave(s)
		if err != nil {
			return lost{id}
		}
		return listen(client, id, pouch)
	})
}

func listen(client Client, id conn, pouch *pouch) any {
	bearer, err := client.Deposit()
	if err != nil {
		return unless(pouch, lost{id})
	}
	pouch.add(bearer)
	return deposited{id, bearer}
}

// keep acknowledges the deposit and goes on listening: the end of the
// connection is how a wrapper's end is noticed.
func (r *receiver) keep(c *actor.Context, id conn) {
	client, pouch := r.conns[id], &r.pouch
	supervise.Go(c, func(context.Context) any {
		if err := client.Kept(); err != nil {
			return lost{id}
		}
		return listen(client, id, pouch)
	})
}

func (r *receiver) refuse(c *actor.Context, id conn, why error) {
	client := r.conns[id]
	delete(r.conns, id)
	delete(r.nonces, id)
	delete(r.whys, id)
	delete(r.pids, id)
	if client == nil {
		return
	}
	r.c.Log.Warn("the launch's credential was refused", "launch", r.spec.Plan.Launch, "why", why)
	r.pouch.release(client) // the refusal closes it, in its own bounded time
	supervise.Go(c, func(context.Context) any {
		client.Refuse(why)
		return nil
	})
}

func (r *receiver) mint(c *actor.Context, req int, m redeem) {
	redeemer, p, pouch := r.c.Redeemer, r.spec.Plan, &r.pouch
	supervise.Go(c, func(ctx context.Context) any {
		bearer, err := redeemer.Redeem(ctx, p.Launch, p.Lease, p.PeerDigest, m.handle)
		pouch.add(bearer)
		return mintDone{req, bearer, err}
	})
}

func (r *receiver) attest(c *actor.Context, req int, id conn, m prove) {
	receipts := r.c.Receipts
	supervise.Go(c, func(ctx context.Context) any {
		receipt, err := receipts.Receipt(ctx, m.bearer, m.nonce)
		return attested{req, id, receipt, err}
	})
}

// unless drops a message that only says that the relay has ended.
func unless(p *pouch, msg any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	return msg
}

// pouch has what must not outlive the relay, however it ends: secrets in a
// field or in a message that nobody will handle, the socket and the clients.
type pouch struct {
	mu      sync.Mutex
	done    bool
	secrets map[*secret.Secret]struct{}
	open    map[io.Closer]struct{}
}

func (p *pouch) add(s *secret.Secret) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		s.Zero()
		return
	}
	if p.secrets == nil {
		p.secrets = map[*secret.Secret]struct{}{}
	}
	p.secrets[s] = struct{}{}
}

// leave: it is somebody else's now, or zeroed.
func (p *pouch) leave(s *secret.Secret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.secrets, s)
}

func (p *pouch) keep(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		_ = c.Close()
		return
	}
	if p.open == nil {
		p.open = map[io.Closer]struct{}{}
	}
	p.open[c] = struct{}{}
}

func (p *pouch) release(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *pouch) shut(c io.Closer) {
	p.release(c)
	_ = c.Close()
}

// close may be called again.
func (p *pouch) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for s := range p.secrets {
		s.Zero()
	}
	for c := range p.open {
		_ = c.Close()
	}
	p.secrets, p.open = nil, nil
}
