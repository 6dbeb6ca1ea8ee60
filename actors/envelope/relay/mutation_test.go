package relay

import (
	"reflect"
	"slices"
	"testing"
)

// rule is Step with something wrong in it.
type rule func(*Core, Event) []Action

// believing changes what the machine gets to hear of an event.
func believing[E any](change func(*Core, *E)) rule {
	return func(c *Core, ev Event) []Action {
		if e, ok := any(ev).(E); ok {
			change(c, &e)
			ev = any(e).(Event)
		}
		return c.Step(ev)
	}
}

// afterwards changes the machine when it has done something of this type.
func afterwards[A any](change func(*Core)) rule {
	return func(c *Core, ev Event) []Action {
		out := c.Step(ev)
		if slices.ContainsFunc(out, func(a Action) bool { _, ok := a.(A); return ok }) {
			change(c)
		}
		return out
	}
}

// without leaves out actions.
func without(gone func(Action) bool) rule {
	return func(c *Core, ev Event) []Action { return slices.DeleteFunc(c.Step(ev), gone) }
}

func like(want Action) func(Action) bool {
	return func(a Action) bool { return reflect.DeepEqual(a, want) }
}

func kind[A any](a Action) bool { _, ok := a.(A); return ok }

// Every promise of the machine, broken on purpose: the exploration finds it. A
// mutant that lives would mean that the exploration checks less than it says.
func TestModel_EveryBrokenRuleIsFound(t *testing.T) {
	for name, broken := range map[string]rule{
		"the peer is not checked":                   believing(func(_ *Core, e *Connected) { e.Refusal = "" }),
		"the answer may be wrong":                   believing(func(_ *Core, e *Answered) { e.Right = true }),
		"the answer may come from anybody":          believing(func(c *Core, e *Answered) { e.Sender = c.pidOf(e.Conn) }),
		"the peer is not checked again":             believing(func(_ *Core, e *Answered) { e.Refusal = "" }),
		"anybody may redeem the handle":             believing(func(_ *Core, e *Redeem) { e.Bound = true }),
		"a bearer that could not be made is served": believing(func(_ *Core, e *Minted) { e.OK = true }),
		"any bearer is a proof":                     believing(func(_ *Core, e *Prove) { e.Bearer = true }),
		"any secret may be deposited":               believing(func(_ *Core, e *Deposit) { e.Bearer = true }),
		"a deposit needs no proof": believing(func(c *Core, _ *Deposit) {
			if c.phase == Redeemed {
				c.phase = Proven
			}
		}),
		"a second redemption goes unnoticed":     afterwards[Mint](func(c *Core) { c.spent = false }),
		"the envelope is served again":           afterwards[Serve](func(c *Core) { c.phase = Waiting }),
		"the handle may be redeemed again":       afterwards[Grant](func(c *Core) { c.phase, c.spent = Served, false }),
		"a refused connection is kept":           afterwards[Challenge](func(c *Core) { c.conns = append(c.conns, conn{id: 4, pid: 103}) }),
		"a parked wrapper is forgotten":          afterwards[Keep](func(c *Core) { c.park() }),
		"gone is not final":                      afterwards[Close](func(c *Core) { c.phase = Waiting }),
		"the handle is not zeroed":               without(kind[ZeroHandle]),
		"the first deadline outlives the relay":  without(like(Disarm{Timer: Unconsumed})),
		"the envelope need not settle":           without(like(Arm{Timer: Settle})),
		"a challenge need not be answered":       without(func(a Action) bool { arm, ok := a.(Arm); return ok && arm.Timer == Step }),
		"a timer outlives the relay":             without(like(Disarm{Timer: Settle})),
		"the secrets outlive the relay":          without(kind[Close]),
		"a request is never answered":            without(kind[Deny]),
		"the unsettled relay stays":              believing(func(_ *Core, e *TimedOut) { e.Timer = Step }),
		"who ends before the deposit is ignored": believing(func(_ *Core, e *Disconnected) { e.Conn = 99 }),
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := explore(broken)
			if err == nil {
				t.Fatalf("%d states and nothing found", seen.states)
			}
			t.Logf("found after %d transitions: %v", seen.transitions, err)
		})
	}
}

func (c *Core) pidOf(id Conn) int {
	if k := c.find(id); k != nil {
		return k.pid
	}
	return 0
}

func (c *Core) park() {
	for i := range c.conns {
		if c.conns[i].id != c.holder {
			c.conns[i].stage = parked
		}
	}
}
