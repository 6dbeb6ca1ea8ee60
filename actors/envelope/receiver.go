package envelope

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope/relay"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

type (
	conn     = relay.Conn
	timerKey = relay.Arm
)

// maxClients bounds the open connections of one relay: eight that wait, and
// the wrappers that have their bearer.
const maxClients = 64

// receiver performs the machine's actions for one launch.
type receiver struct {
	d    *Directory
	c    Config
	spec Spec

	core    *relay.Core
	socket  Socket
	conns   map[conn]Client
	pids    map[conn]int    // who connected
	nonces  map[conn]string // receipt nonce of what the connection was served
	holder  conn            // whom the handle was served to
	replies map[int]supervise.Reply
	timers  map[timerKey]*supervise.Timer
	last    int // the last connection's or request's number

	pouch   pouch
	handle  *secret.Secret // until it is served
	issued  [32]byte       // its SHA-256
	bearer  [32]byte       // SHA-256 of the minted bearer
	minted  *secret.Secret // between Minted and Grant
	mintErr error
	given   *secret.Secret // between Deposit and Keep
	deposit *secret.Secret
	wanted  redeem // what Mint works on
	receipt messages.WorkReceipt
	whys    map[conn]error // the host's own words for a refusal
	closing error
}

// Messages to the relay. The first three are asked by the Directory.
type (
	redeem struct { // → *secret.Secret
		lease  string
		pid    int
		handle *secret.Secret
	}
	prove struct { // → messages.WorkReceipt
		pid    int
		bearer [32]byte
		nonce  string
	}
	phase struct{} // → relay.Phase
	// what came back from beside
	accepted   struct{ client Client }
	stopped    struct{ err error } // accepting
	identified struct {
		conn conn
		pid  int
		err  error
	}
	answered struct {
		conn   conn
		right  bool
		sender int
		err    error // of the second look
		silent error // no frame came
	}
	lost      struct{ conn conn }
	deposited struct {
		conn   conn
		bearer *secret.Secret
	}
	mintDone struct {
		req    int
		bearer *secret.Secret
		err    error
	}
	attested struct {
		req     int
		conn    conn
		receipt messages.WorkReceipt
		err     error
	}
)

func (r *receiver) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		r.start(c)
	case actor.Stopped:
		r.stop(c)
	case accepted:
		if len(r.conns) >= maxClients {
			r.pouch.shut(m.client)
			return
		}
		r.last++
		id := conn(r.last)
		r.conns[id] = m.client
		r.identify(c, id)
	case stopped:
		r.step(c, relay.Ended{})
		if r.closing == nil {
			supervise.Exit(c, problem.Wrap(m.err, "socket_lost", "the relay's socket broke"))
		}
	case identified:
		r.pids[m.conn], r.whys[m.conn] = m.pid, m.err
		r.step(c, relay.Connected{Conn: m.conn, PID: m.pid, Refusal: codeOf(m.err)})
	case answered:
		if m.silent != nil {
			r.step(c, relay.Disconnected{Conn: m.conn})
			r.forget(m.conn)
			return
		}
		r.whys[m.conn] = m.err
		r.step(c, relay.Answered{Conn: m.conn, Right: m.right, Sender: m.sender, Refusal: codeOf(m.err)})
	case lost:
		r.step(c, relay.Disconnected{Conn: m.conn})
		r.forget(m.conn)
	case deposited:
		r.given = m.bearer
		sum, err := m.bearer.SHA256()
		r.step(c, relay.Deposit{Conn: m.conn, Bearer: err == nil && same(sum, r.bearer)})
		r.dropGiven()
	case redeem:
		r.redeem(c, m)
	case mintDone:
		r.minted, r.mintErr = m.bearer, m.err
		if m.err == nil {
			r.bearer, m.err = m.bearer.SHA256()
		}
		r.step(c, relay.Minted{Req: m.req, OK: m.err == nil})
	case prove:
		r.prove(c, m)
	case phase:
		supervise.ReplyTo(c).Send(r.core.Phase())
	case attested:
		r.attested(c, m)
	case relay.TimedOut:
		delete(r.timers, timerKey(m))
		r.step(c, m)
	}
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return problem.Of(err).Code
}

// same compares digests in constant time; the zero digest equals nothing.
func same(a, b [32]byte) bool {
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && a != [32]byte{}
}

func (r *receiver) start(c *actor.Context) {
	r.handle = r.spec.Handle
	r.pouch.add(r.handle)
	var err error
	if r.issued, err = r.handle.SHA256(); err == nil {
		r.socket, err = r.c.Listen(r.spec.Plan.Launch)
	}
	if err != nil {
		supervise.Exit(c, err)
		return
	}
	r.pouch.keep(r.socket)
	context.AfterFunc(supervise.Context(c), r.pouch.close) // also where Stopped fails
	r.d.register(r.spec.Plan.Launch, supervise.Self(c))
	r.accept(c)
	core, actions := relay.New()
	r.core = core
	r.perform(c, actions)
}

func (r *receiver) stop(c *actor.Context) {
	r.d.remove(r.spec.Plan.Launch, supervise.Self(c))
	if r.core != nil && r.closing == nil {
		r.perform(c, r.core.Step(relay.Ended{}))
	}
	r.pouch.close()
}

func (r *receiver) step(c *actor.Context, ev relay.Event) { r.perform(c, r.core.Step(ev)) }

func (r *receiver) redeem(c *actor.Context, m redeem) {
	sum, err := m.handle.SHA256()
	p := r.spec.Plan
	r.last++
	r.replies[r.last] = supervise.ReplyTo(c)
	ours := err == nil && same(sum, r.issued)
	if ours && r.core.Phase() == relay.Served {
		r.wanted = m
	}
	r.step(c, relay.Redeem{Req: r.last, Handle: ours, Bound: m.lease == p.Lease && m.pid == r.pids[r.holder]})
}

// prove looks for whom the nonce was made and asks for the receipt before the
// machine hears of the proof: proven means that the daemon has attested it.
func (r *receiver) prove(c *actor.Context, m prove) {
	r.last++
	req := r.last
	r.replies[req] = supervise.ReplyTo(c)
	whose := conn(0)
	for id, n := range r.nonces {
		if subtle.ConstantTimeCompare([]byte(n), []byte(m.nonce)) == 1 && m.pid == r.pids[id] {
			whose = id
		}
	}
	if whose == 0 || !same(m.bearer, r.bearer) {
		r.step(c, relay.Prove{Req: req, Conn: whose})
		return
	}
	r.attest(c, req, whose, m)
}

func (r *receiver) attested(c *actor.Context, m attested) {
	p := r.spec.Plan
	if m.err == nil && (m.receipt.Launch != p.Launch || m.receipt.Lease != p.Lease) {
		m.err = problem.New("receipt_lease_mismatch", "the bearer belongs to another lease")
	}
	if m.err != nil {
		r.reply(m.req, m.err)
		return
	}
	r.receipt = m.receipt
	r.step(c, relay.Prove{Req: m.req, Conn: m.conn, Bearer: true})
}

func (r *receiver) reply(req int, v any) {
	if reply, ok := r.replies[req]; ok {
		delete(r.replies, req)
		reply.Send(v)
	}
}

// envelope is what connection id is told, with a receipt nonce of its own.
func (r *receiver) envelope(id conn, reused bool) messages.Envelope {
	var b [16]byte
	rand.Read(b[:])
	r.nonces[id] = hex.EncodeToString(b[:])
	return messages.Envelope{
		Launch: r.spec.Plan.Launch, Lease: r.spec.Plan.Lease, MCP: r.c.MCP(), Broker: r.c.Broker,
		Reused: reused, Receipt: r.nonces[id],
	}
}

// perform does what the machine says, in order.
func (r *receiver) perform(c *actor.Context, actions []relay.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case relay.Challenge:
			r.challenge(c, a.Conn)
		case relay.Serve:
			handle := r.handle
			r.handle, r.holder = nil, a.Conn // the sender zeroes it
			r.send(c, a.Conn, r.envelope(a.Conn, false), handle)
		case relay.ZeroHandle:
			if r.handle != nil {
				r.handle.Zero()
				r.handle = nil
			}
		case relay.Reuse:
			bearer, err := r.deposit.Clone()
			if err != nil {
				bearer = nil
			}
			r.pouch.add(bearer)
			r.send(c, a.Conn, r.envelope(a.Conn, true), bearer)
		case relay.Refuse:
			why := refusal(a.Code)
			if host := r.whys[a.Conn]; codeOf(host) == a.Code {
				why = host
			}
			r.refuse(c, a.Conn, why)
		case relay.Mint:
			r.mint(c, a.Req, r.wanted)
		case relay.Grant:
			bearer := r.minted
			r.minted = nil
			if reply := r.replies[a.Req]; !reply.Wanted() {
				bearer.Zero() // the wrapper's end is noticed on its connection
			}
			r.pouch.leave(bearer)
			r.reply(a.Req, bearer)
		case relay.Attest:
			r.reply(a.Req, r.receipt)
		case relay.Deny:
			r.deny(a)
		case relay.Keep:
			r.deposit, r.given = r.given, nil
			r.keep(c, a.Conn)
		case relay.Drop:
			r.dropGiven()
			if r.minted != nil {
				r.minted.Zero()
				r.minted = nil
			}
		case relay.Arm:
			r.timers[a] = supervise.After(c, r.bound(a.Timer), relay.TimedOut(a))
		case relay.Disarm:
			if t := r.timers[timerKey(a)]; t != nil {
				t.Stop()
				delete(r.timers, timerKey(a))
			}
		case relay.Close:
			r.close(c, a.Code)
		}
	}
}

func (r *receiver) deny(a relay.Deny) {
	if a.Code == relay.CodeMintFailed && r.mintErr != nil {
		r.reply(a.Req, r.mintErr)
		return
	}
	r.reply(a.Req, refusal(a.Code))
}

// close ends the relay. A launch whose relay closed by itself ends too.
func (r *receiver) close(c *actor.Context, code string) {
	r.closing = refusal(code)
	if code == relay.CodeLeaseOver {
		supervise.Exit(c, nil)
		return
	}
	if r.c.Fail != nil {
		p := problem.Of(r.closing)
		r.c.Fail(r.spec.Plan.Launch, p.Code, p.Message)
	}
	supervise.Exit(c, r.closing)
}

func (r *receiver) dropGiven() {
	if r.given != nil {
		r.given.Zero()
		r.given = nil
	}
}

func (r *receiver) forget(id conn) {
	delete(r.nonces, id)
	delete(r.whys, id)
	delete(r.pids, id)
	if client := r.conns[id]; client != nil {
		r.pouch.shut(client)
		delete(r.conns, id)
	}
}

// refusal is the sentence for a code of the machine; codes of the host's checks
// keep only themselves.
func refusal(code string) error {
	sentences := map[string]string{
		relay.CodeChallengeFailed: "the process that connected did not answer the challenge itself",
		relay.CodeBusy:            "too many programs wait for this launch's credential",
		relay.CodeGone:            "the credential of this launch can't be handed out any more",
		relay.CodeUnconsumed:      "no wrapper fetched the launch's envelope in time",
		relay.CodeUnsettled:       "the wrapper did not redeem, prove and deposit its credential in time",
		relay.CodeWrapperLost:     "the wrapper ended while it alone held the credential",
		relay.CodeRedeemedAlready: "the handle was redeemed before; the launch ends, because somebody else has tried",
		relay.CodeHandleUnknown:   "this is not the handle that was handed out",
		relay.CodeHandleNotServed: "the handle was used before it was handed out; the launch ends, because it has leaked",
		relay.CodeNotBound:        "the handle is bound to another lease or another wrapper",
		relay.CodeMintFailed:      "the launch's credential could not be made",
		relay.CodeProofRefused:    "this bearer is not the one that was handed out here",
		relay.CodeDepositRefused:  "only the proven credential can be deposited, by the wrapper that proved it",
		relay.CodeLeaseOver:       "the lease is over",
	}
	if s, ok := sentences[code]; ok {
		return problem.New(code, "%s", s).WithHint("Start the agent again: sophia agent start")
	}
	return problem.New(code, "%s", fmt.Sprintf("the check of the process that connected failed: %s", code))
}

func (r *receiver) bound(t relay.Timer) time.Duration {
	switch t {
	case relay.Unconsumed:
		return r.c.Unconsumed
	case relay.Settle:
		return r.c.Settle
	}
	return r.c.Step
}
