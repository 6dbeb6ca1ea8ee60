package launches

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope"
	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// keeper is the actor that keeps one lease: it stores each state before it
// performs the state's actions, one event after the other.
type keeper struct {
	s     *Service
	la    *launch
	l     messages.Lease
	first lease.Event

	queue   []lease.Event
	next    messages.Lease // being stored
	actions []lease.Action
	storing bool

	revoking bool

	siblings map[string]*supervise.Ref // as they said that they are there
	waiting  []waiter
	proofs   []proof
	withdraw context.CancelFunc

	preparing bool    // the harness is being hashed ahead
	verifies  bool    // the state is there, and waits for that
	ahead     *inHand // hashed ahead
	held      *inHand

	cutStart context.CancelFunc // while the unit's start has no outcome yet

	handle   [32]byte // SHA-256 of the redemption handle
	issued   bool
	redeemed bool
	token    *secret.Secret // the attach token, until it is given out
	tokenOut bool
}

type waiter struct {
	after messages.LeaseState
	reply supervise.Reply
}

type proof struct {
	prove
	reply supervise.Reply
}

// clockLook is how late a lease may end after the machine has slept.
const clockLook = 15 * time.Second

// storeRetry is how long the keeper waits after the store refused a state.
const storeRetry = time.Second

func (k *keeper) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		if _, again := k.first.(lease.Recovered); again {
			k.rejoin(c)
		}
		k.on(c, k.first)
	case actor.Stopped:
		k.drop()
	case lease.Event:
		k.on(c, m)
	case stored:
		k.stored(c, m.err)
	case retry:
		k.store(c)
	case revoked:
		if m.err != nil {
			k.s.o.Log.Error("connection not revoked", "launch", k.la.id, "err", m.err)
			supervise.After(c, storeRetry, revokeAgain{})
			return
		}
		k.revoking = false
		k.drain(c)
	case revokeAgain:
		k.revoke(c)
	case joined:
		if m.err != nil {
			k.s.o.Log.Error("launch's actors did not start", "launch", k.la.id, "err", m.err)
			supervise.Exit(c, m.err)
		}
	case prepared:
		k.prepared(c, m)
	case verified:
		k.verified(c, m)
	case began:
		k.began(c, m)
	case minted:
		k.minted(c, m)
	case await:
		if r := supervise.ReplyTo(c); k.l.State != m.after {
			r.Send(k.l)
		} else {
			k.waiting = append(k.waiting, waiter{m.after, r})
		}
	case takeToken:
		k.giveToken(supervise.ReplyTo(c))
	case stopNow:
		supervise.ReplyTo(c).Send(k.l)
		k.on(c, lease.StopAsked{Code: m.code, Reason: m.reason})
	case redeem:
		k.redeem(c, m, supervise.ReplyTo(c))
	case prove:
		k.proofs = append(k.proofs, proof{m, supervise.ReplyTo(c)})
		k.answerProofs(c)
	case here:
		k.siblings[m.id] = m.ref
		k.repeat(m.id)
	case leaseLook:
		k.expire(c)
	case proofOver:
		if k.l.State == messages.LeaseRedeeming {
			k.on(c, lease.Failed{Code: lease.CodeNeverProven, Reason: "The wrapper did not prove the credential in time."})
		}
	case supervise.Down:
		if errors.Is(m.Reason, supervise.ErrShutdown) {
			return // the daemon stops, and the next one takes the launch up
		}
		k.on(c, lease.Failed{Code: "envelope_relay_lost", Reason: "The envelope relay ended, and is never started again."})
	}
}

func (k *keeper) on(c *actor.Context, ev lease.Event) {
	k.queue = append(k.queue, ev)
	k.drain(c)
}

func (k *keeper) drain(c *actor.Context) {
	for !k.storing && len(k.queue) > 0 {
		next, actions, changed := lease.Step(k.l, k.queue[0], time.Now())
		if changed && k.revoking && lease.Final(next.State) {
			return
		}
		k.queue = k.queue[1:]
		if !changed {
			continue
		}
		k.next, k.actions = next, actions
		k.store(c)
	}
}

func (k *keeper) store(c *actor.Context) {
	k.storing = true
	l, put := k.next, k.s.p.Store.PutLease
	supervise.Go(c, func(ctx context.Context) any { return stored{put(ctx, l, "launch "+string(l.State))} })
}

func (k *keeper) stored(c *actor.Context, err error) {
	if err != nil {
		k.s.o.Log.Error("lease not stored", "launch", k.la.id, "state", k.next.State, "err", err)
		supervise.After(c, storeRetry, retry{})
		return
	}
	changed := k.l.State != k.next.State
	k.l, k.storing = k.next, false
	kept := k.l
	k.la.last.Store(&kept)
	if changed {
		k.s.o.Log.Info("launch", "launch", k.la.id, "state", k.l.State, "code", k.l.Code)
		k.tellWaiting()
		k.timers(c)
	}
	actions := k.actions
	k.actions = nil // one that fails at once brings the next state, with its own
	for _, a := range actions {
		k.perform(c, a)
	}
	k.answerProofs(c)
	if lease.Final(k.l.State) {
		k.drop()
		k.s.over(k.la.id)
		return
	}
	k.drain(c)
}

func (k *keeper) tellWaiting() {
	still := k.waiting[:0]
	for _, w := range k.waiting {
		if w.after == k.l.State {
			still = append(still, w)
			continue
		}
		w.reply.Send(k.l)
	}
	k.waiting = still
}

func (k *keeper) timers(c *actor.Context) {
	if k.l.State != messages.LeaseRedeeming {
		return
	}
	supervise.After(c, k.s.o.ProofBound, proofOver{})
	k.expire(c)
}

// expire stops the launch once its lease is over, and else looks again. Timers
// stand still while the machine sleeps and the owner's clock does not: whichever
// of the two is over first ends the lease.
func (k *keeper) expire(c *actor.Context) {
	if k.l.Expires == nil {
		return
	}
	left := min(time.Until(*k.l.Expires), k.l.Expires.Round(0).Sub(k.s.o.Clock().Round(0)))
	if left <= 0 {
		k.on(c, lease.StopAsked{Code: "lease_expired", Reason: "The lease's time is over."})
		return
	}
	supervise.After(c, min(left, clockLook), leaseLook{})
}

func (k *keeper) perform(c *actor.Context, a lease.Action) {
	l := k.l
	switch a {
	case lease.AskOwner:
		ctx, cancel := context.WithCancel(supervise.Context(c))
		k.withdraw = cancel
		terminal := k.la.order.Terminal
		supervise.Go(c, func(context.Context) any { return k.s.askOwner(ctx, l, terminal) })
		k.prepare(c)
	case lease.Withdraw:
		if k.withdraw != nil {
			k.withdraw()
		}
	case lease.Match:
		order := *k.la.order
		supervise.Go(c, func(ctx context.Context) any { return k.s.match(ctx, l.Plan, order) })
	case lease.Verify:
		if k.verifies = true; !k.preparing {
			k.verify(c)
		}
	case lease.Start:
		k.start(c)
	case lease.WatchUnit, lease.StopUnit, lease.Gate, lease.Compare, lease.Remove, lease.Strip:
		k.delegate(a)
	case lease.Revoke:
		k.drop()
		k.revoke(c)
	}
}

// revoke ends the lease's connection, and then the relay, which holds what is
// left of its credential: an unquiet launch may live on for long. No lease ends
// before the revocation is on disk.
func (k *keeper) revoke(c *actor.Context) {
	k.revoking = true
	id, home := k.l.ID, supervise.Home(c)
	supervise.Go(c, func(ctx context.Context) any {
		if err := k.s.p.Connections.RevokeForLease(ctx, id); err != nil {
			return revoked{err}
		}
		if err := home.Remove(ctx, idEnvelope); !errors.Is(err, supervise.ErrUnknown) {
			return revoked{err}
		}
		return revoked{} // there is none any more, or there never was
	})
}

// delegate sends a sibling its work. One that has not said that it is there
// gets it when it does. A unit is stopped only once its start has an outcome: a
// request still on its way to systemd would bring it up behind the proof that
// nothing is alive.
func (k *keeper) delegate(a lease.Action) {
	if a == lease.StopUnit && k.cutStart != nil {
		k.cutStart()
		return
	}
	id, msg := k.work(a)
	if ref := k.siblings[id]; ref != nil {
		_ = ref.Send(msg) // down: its next life says that it is there
	}
}

func (k *keeper) work(a lease.Action) (sibling string, msg any) {
	switch a {
	case lease.WatchUnit:
		return idUnit, watchUnit{k.l.Unit}
	case lease.StopUnit:
		return idUnit, stopUnit{k.l.Unit}
	case lease.Gate:
		return idCleanup, gate{k.l.Unit}
	case lease.Compare:
		return idCleanup, compare{k.l}
	case lease.Strip:
		return idCleanup, strip{k.l}
	default:
		return idCleanup, remove{}
	}
}

// repeat gives a sibling that has come (back) what the lease waits for. Every
// delegated action can be performed again.
func (k *keeper) repeat(sibling string) {
	if k.storing {
		return // what the new state wants is delegated once it is stored
	}
	wants := map[messages.LeaseState]lease.Action{
		messages.LeaseRedeeming: lease.WatchUnit, messages.LeaseRunning: lease.WatchUnit, messages.LeaseStopping: lease.StopUnit,
		messages.LeaseQuiescing: lease.Gate, messages.LeaseUnquiet: lease.Gate, messages.LeaseEvidencing: lease.Evidencing(k.l),
	}
	a, ok := wants[k.l.State]
	if !ok {
		return
	}
	if id, _ := k.work(a); id == sibling {
		k.delegate(a)
	}
}

// prepare has the harness hashed while the owner reads: hundreds of megabytes
// that are not waited for after the approval.
func (k *keeper) prepare(c *actor.Context) {
	k.preparing = true
	plan, host := k.l.Plan, k.s.p.Host
	supervise.Go(c, func(ctx context.Context) any {
		held, err := host.Prepare(ctx, plan)
		if err != nil {
			return prepared{} // Verify will find the same, when it counts
		}
		return prepared{inHandOf(ctx, held)}
	})
}

func (k *keeper) prepared(c *actor.Context, m prepared) {
	k.preparing = false
	switch k.l.State {
	case messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying:
		if k.ahead = m.held; k.verifies {
			k.verify(c)
		}
	default:
		m.held.close()
	}
}

func (k *keeper) verify(c *actor.Context) {
	plan, host, ahead := k.l.Plan, k.s.p.Host, k.ahead
	k.ahead = nil
	supervise.Go(c, func(ctx context.Context) any {
		held, err := host.Verify(ctx, plan, ahead.giveAway())
		if err != nil {
			return verified{err: err}
		}
		before, err := host.Evidence(ctx, plan)
		return verified{inHandOf(ctx, held), before, err}
	})
}

func (k *keeper) verified(c *actor.Context, m verified) {
	k.held = m.held // dropped with the rest where the launch has ended by now
	if m.err != nil {
		k.on(c, refused(m.err))
		return
	}
	k.on(c, lease.Verified{Before: m.before})
}

// start gives the launch its secrets and its relay, and starts the unit. The
// relay listens before the unit can run.
func (k *keeper) start(c *actor.Context) {
	handle, tokenSum, err := k.issue()
	if err != nil {
		k.rejoin(c) // the way to an end leads through them
		k.on(c, lease.Refused{Code: "no_locked_memory", Reason: fmt.Sprintf("No memory for the launch's secrets: %v.", err)})
		return
	}
	spec := StartSpec{Plan: k.l.Plan, PlanDigest: k.l.PlanDigest, Held: k.held.giveAway(), TokenSHA256: hex.EncodeToString(tokenSum[:]), Rows: k.la.order.Rows, Cols: k.la.order.Cols}
	home, la, s := supervise.Home(c), k.la, k.s
	relay := envelope.Spec{Plan: k.l.Plan, Handle: handle, Unit: func() messages.UnitRef { return la.last.Load().Unit }}
	ctx, cancel := context.WithCancel(supervise.Context(c))
	k.cutStart = cancel
	supervise.Go(c, func(context.Context) any {
		defer cancel()
		if spec.Held != nil { // nil: this life is over
			defer spec.Held.Close()
		}
		envelope, err := s.join(home, la, &relay)
		if err != nil {
			return began{err: err}
		}
		unit, err := s.p.Host.Start(ctx, spec)
		return began{envelope, unit, err}
	})
	k.held = nil
}

// issue makes the redemption handle, for the relay, and the attach token. On an
// error neither is left.
func (k *keeper) issue() (handle *secret.Secret, tokenSum [32]byte, err error) {
	defer func() {
		if err != nil && handle != nil {
			handle.Zero()
		}
	}()
	if handle, err = secret.Random("", 32); err != nil {
		return nil, tokenSum, err
	}
	if k.handle, err = handle.SHA256(); err != nil {
		return handle, tokenSum, err
	}
	if k.token, err = secret.Read(k.s.o.Random, tokenBytes); err != nil {
		return handle, tokenSum, err
	}
	tokenSum, err = k.token.SHA256() // the token is dropped with the lease
	k.issued = err == nil
	return handle, tokenSum, err
}

// tokenBytes is the attach token's length (spec managed-launch).
const tokenBytes = 32

// rejoin gives a launch that goes no further its unit and cleanup actors.
func (k *keeper) rejoin(c *actor.Context) {
	switch k.l.State {
	case messages.LeaseProposed, messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying:
		return
	}
	home, la, s := supervise.Home(c), k.la, k.s
	supervise.Go(c, func(context.Context) any {
		_, err := s.join(home, la, nil)
		return joined{err}
	})
}

func (k *keeper) began(c *actor.Context, m began) {
	k.cutStart = nil
	if m.relay != nil {
		m.relay.Monitor(supervise.Self(c)) // Down comes at once if it has ended already
	}
	if m.err == nil {
		k.on(c, lease.Started{Unit: m.unit})
		return
	}
	k.on(c, refused(m.err))
	if k.l.State == messages.LeaseStopping && !k.storing {
		k.delegate(lease.StopUnit) // it waited for this
	}
}

func (k *keeper) giveToken(r supervise.Reply) {
	switch {
	case k.tokenOut:
		r.Send(problem.New("token_consumed", "the attach token of %s was already given out", k.la.id).
			WithHint("Re-attaching is not possible for this launch: each has one token, for one terminal. The agent keeps running; what it shows: sophia agent logs %s", k.la.id))
	case k.token == nil || (k.l.State != messages.LeaseRedeeming && k.l.State != messages.LeaseRunning):
		r.Send(problem.New("launch_not_running", "%s is %s; there is no terminal to attach to", k.la.id, k.l.State))
	default:
		if r.Send(k.token) { // not to one who has gone: each launch has one
			k.token, k.tokenOut = nil, true
		}
	}
}

func (k *keeper) redeem(c *actor.Context, m redeem, r supervise.Reply) {
	known := false
	if sum, err := m.handle.SHA256(); err == nil {
		known = k.issued && sum == k.handle
	}
	m.handle.Zero()
	switch {
	case k.l.State != messages.LeaseStarting && k.l.State != messages.LeaseRedeeming && k.l.State != messages.LeaseRunning:
		r.Send(problem.New("launch_not_live", "%s is %s", k.la.id, k.l.State))
	case m.lease != k.l.ID:
		r.Send(problem.New("redemption_lease_mismatch", "the handle is bound to another lease"))
	case m.wrapper != k.l.Plan.PeerDigest:
		r.Send(problem.New("redemption_wrapper_mismatch", "the program that redeems is not the wrapper that the plan names"))
	case !known:
		r.Send(problem.New("handle_unknown", "this is not the handle that was handed out"))
	case k.redeemed:
		r.Send(problem.New("handle_already_redeemed", "the handle was redeemed before; the launch ends, because somebody else has tried"))
		k.on(c, lease.Failed{Code: "handle_already_redeemed", Reason: "The redemption handle was used a second time."})
	default:
		k.redeemed = true
		plan, expires := k.l.Plan, time.Time{}
		if k.l.Plan.LeaseSeconds > 0 {
			expires = time.Now().Add(time.Duration(k.l.Plan.LeaseSeconds) * time.Second)
		}
		supervise.Go(c, func(ctx context.Context) any {
			row, bearer, err := k.s.p.Connections.MintForLease(ctx, plan, expires)
			return minted{row, bearer, err, r}
		})
	}
}

func (k *keeper) minted(c *actor.Context, m minted) {
	if m.err != nil {
		m.reply.Send(m.err)
		k.on(c, lease.Failed{Code: problem.Of(m.err).Code, Reason: problem.Of(m.err).Message})
		return
	}
	k.on(c, lease.Redeemed{Connection: m.row.Connection})
	if !m.reply.Send(m.bearer) {
		m.bearer.Zero()
	}
}

// answerProofs answers what can be answered: a proof that overtook the storing
// of an earlier state waits for it, and a receipt is given only when running
// is stored.
func (k *keeper) answerProofs(c *actor.Context) {
	still := k.proofs[:0]
	for _, p := range k.proofs {
		switch {
		case p.lease != k.l.ID || (k.l.Connection != "" && p.connection != k.l.Connection):
			p.reply.Send(problem.New("receipt_lease_mismatch", "the bearer belongs to another lease"))
		case k.l.State == messages.LeaseRunning:
			p.reply.Send(messages.WorkReceipt{Launch: k.la.id, Lease: k.l.ID, Connection: k.l.Connection,
				WrapperDigest: k.l.Plan.PeerDigest, PlanDigest: k.l.PlanDigest, Nonce: p.nonce})
		case k.l.State == messages.LeaseStarting, k.l.State == messages.LeaseRedeeming:
			still = append(still, p)
		default:
			p.reply.Send(problem.New("launch_not_live", "%s is %s", k.la.id, k.l.State))
		}
	}
	k.proofs = still
	if len(still) > 0 && k.l.State == messages.LeaseRedeeming && k.l.Connection != "" && !k.storing {
		k.on(c, lease.Proven{})
	}
}

// drop zeroes what no later state may use.
func (k *keeper) drop() {
	if k.token != nil {
		k.token.Zero()
		k.token = nil
	}
	k.ahead.close()
	k.held.close()
	k.ahead, k.held = nil, nil
	k.issued = false
	if k.withdraw != nil {
		k.withdraw()
	}
}

func refused(err error) lease.Refused {
	p := problem.Of(err)
	return lease.Refused{Code: p.Code, Reason: strings.TrimSpace(p.Message + ". " + p.Hint)}
}
