package relay

import "slices"

// Phase is how far the credential has got.
type Phase string

// Phases.
const (
	Waiting   Phase = "waiting"
	Served    Phase = "served"
	Redeeming Phase = "redeeming"
	Redeemed  Phase = "redeemed"
	Proven    Phase = "proven"
	Kept      Phase = "deposited"
	Gone      Phase = "gone"
)

// Codes that the machine itself refuses with.
const (
	CodeChallengeFailed = "challenge_failed"
	CodeBusy            = "relay_busy"
	CodeGone            = "relay_gone"
	CodeUnconsumed      = "envelope_unconsumed"     // nobody came in time
	CodeUnsettled       = "envelope_unsettled"      // served, and no deposit in time
	CodeWrapperLost     = "wrapper_lost"            // the holder ended before the deposit
	CodeRedeemedAlready = "handle_already_redeemed" // somebody else has tried
	CodeHandleUnknown   = "handle_unknown"
	CodeHandleNotServed = "handle_not_served" // the right handle, before it was served
	CodeNotBound        = "redemption_not_bound"
	CodeMintFailed      = "bearer_not_made"
	CodeProofRefused    = "proof_refused"
	CodeDepositRefused  = "deposit_refused"
	CodeLeaseOver       = "lease_over"
)

// MaxConns bounds the connections that have not got a bearer yet.
const MaxConns = 8

type stage byte

const (
	challenged stage = iota // the answer is due
	parked                  // answered; another holds the envelope
	served                  // has had an envelope; may prove
)

type conn struct {
	id    Conn
	pid   int
	stage stage
}

// Core is the relay's rules: Step takes what happened and says what to do. It
// keeps no secret, no clock and no goroutine. Make one with New.
type Core struct {
	phase  Phase
	holder Conn // whom the handle was served to
	minter int  // the request that waits for Mint
	spent  bool // the handle was redeemed once
	conns  []conn
}

// New returns the machine and its first actions.
func New() (*Core, []Action) {
	return &Core{phase: Waiting}, []Action{Arm{Timer: Unconsumed}}
}

// Phase is where the relay stands.
func (c *Core) Phase() Phase { return c.phase }

// Step applies one event.
func (c *Core) Step(ev Event) []Action {
	switch e := ev.(type) {
	case Connected:
		return c.connected(e)
	case Answered:
		return c.answered(e)
	case Disconnected:
		return c.disconnected(e)
	case Redeem:
		return c.redeem(e)
	case Minted:
		return c.minted(e)
	case Prove:
		return c.prove(e)
	case Deposit:
		return c.deposit(e)
	case TimedOut:
		return c.timedOut(e)
	case Ended:
		return c.close(CodeLeaseOver)
	}
	return nil
}

func (c *Core) connected(e Connected) []Action {
	waiting := 0
	for _, k := range c.conns {
		if k.stage != served {
			waiting++
		}
	}
	switch {
	case c.phase == Gone:
		return []Action{Refuse{e.Conn, CodeGone}}
	case e.Refusal != "":
		return []Action{Refuse{e.Conn, e.Refusal}}
	case waiting >= MaxConns:
		return []Action{Refuse{e.Conn, CodeBusy}}
	}
	c.conns = append(c.conns, conn{id: e.Conn, pid: e.PID})
	return []Action{Arm{Step, e.Conn}, Challenge{e.Conn}}
}

func (c *Core) answered(e Answered) []Action {
	k := c.find(e.Conn)
	if k == nil {
		return nil
	}
	if k.stage != challenged { // one request at a time: nothing but a deposit may follow
		return c.refuse(e.Conn, CodeChallengeFailed)
	}
	switch {
	case !e.Right || e.Sender != k.pid:
		return c.refuse(e.Conn, CodeChallengeFailed)
	case e.Refusal != "":
		return c.refuse(e.Conn, e.Refusal)
	}
	out := []Action{Disarm{Step, e.Conn}}
	switch c.phase {
	case Waiting:
		k.stage, c.phase, c.holder = served, Served, e.Conn
		return append(out, Serve{e.Conn}, ZeroHandle{}, Disarm{Timer: Unconsumed}, Arm{Timer: Settle}, Notify{Served})
	case Kept:
		k.stage = served
		return append(out, Reuse{e.Conn})
	}
	k.stage = parked
	return out
}

func (c *Core) disconnected(e Disconnected) []Action {
	k := c.find(e.Conn)
	if k == nil {
		return nil
	}
	var out []Action
	if k.stage == challenged {
		out = append(out, Disarm{Step, e.Conn})
	}
	c.remove(e.Conn)
	if e.Conn == c.holder && c.phase != Kept {
		return append(out, c.close(CodeWrapperLost)...)
	}
	return out
}

func (c *Core) redeem(e Redeem) []Action {
	switch {
	case !e.Handle:
		return []Action{Deny{e.Req, CodeHandleUnknown}}
	case c.spent:
		return append([]Action{Deny{e.Req, CodeRedeemedAlready}}, c.close(CodeRedeemedAlready)...)
	case !e.Bound:
		// The right handle from a place that it was not served to.
		return append([]Action{Deny{e.Req, CodeNotBound}}, c.close(CodeNotBound)...)
	}
	switch c.phase {
	case Waiting:
		return append([]Action{Deny{e.Req, CodeHandleNotServed}}, c.close(CodeHandleNotServed)...)
	case Served:
		c.phase, c.minter, c.spent = Redeeming, e.Req, true
		return []Action{Mint{e.Req}}
	}
	return []Action{Deny{e.Req, CodeGone}}
}

func (c *Core) minted(e Minted) []Action {
	if c.phase != Redeeming || e.Req != c.minter {
		return []Action{Drop{}} // closed meanwhile; close has denied the request
	}
	c.minter = 0
	if !e.OK {
		return append([]Action{Deny{e.Req, CodeMintFailed}}, c.close(CodeMintFailed)...)
	}
	c.phase = Redeemed
	return []Action{Grant{e.Req}, Notify{Redeemed}}
}

func (c *Core) prove(e Prove) []Action {
	k := c.find(e.Conn)
	if !e.Bearer || k == nil || k.stage != served {
		return []Action{Deny{e.Req, CodeProofRefused}}
	}
	switch {
	case c.phase == Redeemed && e.Conn == c.holder:
		c.phase = Proven
		return []Action{Attest{e.Req}, Notify{Proven}}
	case c.phase == Proven && e.Conn == c.holder, c.phase == Kept:
		return []Action{Attest{e.Req}}
	}
	return []Action{Deny{e.Req, CodeProofRefused}}
}

func (c *Core) deposit(e Deposit) []Action {
	if c.find(e.Conn) == nil {
		return []Action{Drop{}}
	}
	if c.phase != Proven || e.Conn != c.holder || !e.Bearer {
		return append([]Action{Drop{}}, c.refuse(e.Conn, CodeDepositRefused)...)
	}
	c.phase = Kept
	out := []Action{Keep{e.Conn}, Disarm{Timer: Settle}, Notify{Kept}}
	for i := range c.conns {
		if c.conns[i].stage == parked {
			c.conns[i].stage = served
			out = append(out, Reuse{c.conns[i].id})
		}
	}
	return out
}

func (c *Core) timedOut(e TimedOut) []Action {
	switch e.Timer {
	case Step:
		if k := c.find(e.Conn); k != nil && k.stage == challenged {
			return c.refuse(e.Conn, CodeChallengeFailed)
		}
	case Unconsumed:
		if c.phase == Waiting {
			return c.close(CodeUnconsumed)
		}
	case Settle:
		if c.phase != Kept && c.phase != Waiting {
			return c.close(CodeUnsettled)
		}
	}
	return nil
}

// refuse ends one connection; if it is the holder's before the deposit, all.
func (c *Core) refuse(id Conn, code string) []Action {
	out := []Action{Refuse{id, code}}
	if k := c.find(id); k != nil && k.stage == challenged {
		out = append(out, Disarm{Step, id})
	}
	c.remove(id)
	if id == c.holder && c.phase != Kept {
		return append(out, c.close(code)...)
	}
	return out
}

// close ends the relay, once.
func (c *Core) close(code string) []Action {
	if c.phase == Gone {
		return nil
	}
	var out []Action
	if c.minter != 0 {
		out = append(out, Deny{c.minter, code})
		c.minter = 0
	}
	for _, k := range c.conns {
		if k.stage == challenged {
			out = append(out, Disarm{Step, k.id})
		}
		out = append(out, Refuse{k.id, code})
	}
	switch c.phase {
	case Waiting:
		out = append(out, Disarm{Timer: Unconsumed}, ZeroHandle{})
	case Served, Redeeming, Redeemed, Proven:
		out = append(out, Disarm{Timer: Settle})
	}
	c.conns, c.holder, c.phase = nil, 0, Gone
	return append(out, Close{code}, Notify{Gone})
}

func (c *Core) find(id Conn) *conn {
	for i := range c.conns {
		if c.conns[i].id == id {
			return &c.conns[i]
		}
	}
	return nil
}

func (c *Core) remove(id Conn) {
	c.conns = slices.DeleteFunc(c.conns, func(k conn) bool { return k.id == id })
}
