package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The exploration runs the machine against every schedule of an environment:
//
//	A, B    genuine wrappers of the launch: connect, answer, redeem, prove,
//	        deposit, one step at a time, and may be killed before any of them
//	T       a thief that holds the connection of a process that has become the
//	        genuine program: the check passes, the answer comes from the thief
//	S       a stranger: wrong program
//	X       somebody who got at the handle once it was served, and redeems it
//	time    every armed timer may run out at any moment
//	mint    may succeed or fail, at any later moment
//	relay   may crash, or the lease end, at any moment
//
// and checks after every step, in every reachable state, what doc.go promises.
type actor struct {
	name    byte
	at      byte // see below
	served  bool // has the handle
	bearer  bool // has the bearer
	refused bool
	reused  bool // got the deposit
	dead    bool
}

// Where an actor is: it has not connected, was challenged, has answered, has
// asked to redeem, has asked to prove, has asked to deposit, is done.
const (
	atStart = iota
	atChallenged
	atAnswered
	atRedeeming
	atRedeemed
	atProving
	atProven
	atDepositing
	atDone
)

type world struct {
	core    Core
	a       [4]actor // A, B, T, S; Conn and Req are index+1
	xAsked  bool
	minting int // the request that mint works on
	timers  []string
	crashed bool

	handle                          bool // the relay still holds it
	kept                            bool // the relay holds the bearer
	serves, grants, mints, receipts int
	rule                            rule // nil: the machine as it is
	pending                         int  // requests without an answer yet, as a bit set
	closed                          int
}

const x = 9 // X's request number

func (w *world) clone() *world {
	n := *w
	n.core.conns = slices.Clone(w.core.conns)
	n.timers = slices.Clone(w.timers)
	return &n
}

func (w *world) key() string {
	n := *w
	n.rule = nil
	return fmt.Sprintf("%+v", n)
}

// do lets the machine take an event and performs its actions on the world.
func (w *world) do(ev Event) error {
	if w.crashed {
		return fmt.Errorf("an event after the crash")
	}
	step := w.core.Step
	if w.rule != nil {
		step = func(ev Event) []Action { return w.rule(&w.core, ev) }
	}
	actions := step(ev)
	if err := violates(ev, actions); err != nil {
		return err
	}
	return w.perform(actions)
}

func (w *world) perform(actions []Action) error {
	for i, act := range actions {
		switch act := act.(type) {
		case Challenge:
			w.a[act.Conn-1].at = atChallenged
		case Serve:
			a := &w.a[act.Conn-1]
			if !w.handle || a.name != 'A' && a.name != 'B' {
				return fmt.Errorf("served to %c, handle there: %v", a.name, w.handle)
			}
			if i+1 == len(actions) || actions[i+1] != (Action)(ZeroHandle{}) {
				return fmt.Errorf("the handle is not zeroed at once")
			}
			w.serves++
			a.served, a.at = true, atAnswered
		case ZeroHandle:
			w.handle = false
		case Reuse:
			a := &w.a[act.Conn-1]
			if !w.kept || a.name != 'A' && a.name != 'B' {
				return fmt.Errorf("the deposit went to %c, deposit there: %v", a.name, w.kept)
			}
			a.bearer, a.reused, a.at = true, true, atRedeemed
		case Refuse:
			w.a[act.Conn-1].refused = true
		case Mint:
			w.minting = act.Req
			w.mints++
		case Grant:
			if err := w.answer(act.Req); err != nil {
				return err
			}
			w.grants++
			if act.Req != x {
				a := &w.a[act.Req-1]
				a.bearer, a.at = true, atRedeemed
			}
		case Attest:
			if err := w.answer(act.Req); err != nil {
				return err
			}
			w.receipts++
			w.a[act.Req-1].at = atProven
		case Deny:
			if err := w.answer(act.Req); err != nil {
				return err
			}
			if act.Req != x { // the wrapper gives up; its connection is still there
				w.a[act.Req-1].at = atDone
			}
		case Keep:
			if w.receipts == 0 {
				return fmt.Errorf("a deposit was kept before any proof")
			}
			w.kept = true
			w.a[act.Conn-1].at = atDone
		case Drop:
		case Arm:
			w.timers = append(w.timers, timerKey(act.Timer, act.Conn))
		case Disarm:
			w.timers = slices.DeleteFunc(w.timers, func(s string) bool { return s == timerKey(act.Timer, act.Conn) })
		case Notify:
		case Close:
			w.closed++
			w.handle, w.kept = false, false
		}
	}
	return nil
}

func (w *world) answer(req int) error {
	if w.pending&(1<<req) == 0 {
		return fmt.Errorf("request %d answered twice or unasked", req)
	}
	w.pending &^= 1 << req
	return nil
}

func timerKey(t Timer, c Conn) string { return fmt.Sprintf("%s/%d", t, c) }

type move struct {
	name string
	ev   Event // nil: the relay crashes
	pre  func(*world)
}

// moves are all things that may happen next.
func (w *world) moves() (out []move) {
	add := func(name string, ev Event, pre func(*world)) { out = append(out, move{name, ev, pre}) }
	if w.crashed {
		return nil
	}
	for i := range w.a {
		a, id := w.a[i], Conn(i+1)
		if a.dead || a.refused {
			continue
		}
		pid := 100 + i
		switch a.at {
		case atStart:
			refusal := ""
			if a.name == 'S' {
				refusal = "peer_wrong_executable"
			}
			add("connect", Connected{id, pid, refusal}, nil)
		case atChallenged:
			sender, again := pid, ""
			if a.name == 'T' {
				sender = 900
			}
			add("answer", Answered{id, true, sender, again}, func(w *world) { w.a[i].at = atAnswered })
			add("answer wrongly", Answered{id, false, pid, ""}, nil)
			add("exec after the check", Answered{id, true, sender, "peer_wrong_executable"}, nil)
		case atAnswered:
			if a.served {
				add("redeem", Redeem{i + 1, true, true}, func(w *world) { w.a[i].at = atRedeeming; w.pending |= 1 << (i + 1) })
				add("redeem as another launch", Redeem{i + 1, true, false}, func(w *world) { w.a[i].at = atRedeeming; w.pending |= 1 << (i + 1) })
			}
			add("prove without a bearer", Prove{i + 1, id, false}, func(w *world) { w.pending |= 1 << (i + 1) })
			add("deposit without a bearer", Deposit{id, false}, nil)
			add("answer again", Answered{id, true, pid, ""}, nil)
		case atRedeemed:
			add("prove", Prove{i + 1, id, true}, func(w *world) { w.a[i].at = atProving; w.pending |= 1 << (i + 1) })
			if !a.reused {
				add("deposit before the proof", Deposit{id, true}, nil)
			}
		case atProven:
			if a.reused {
				add("exit", Disconnected{id}, func(w *world) { w.a[i].dead = true })
			} else {
				add("deposit", Deposit{id, true}, func(w *world) { w.a[i].at = atDepositing })
				add("deposit another secret", Deposit{id, false}, nil)
			}
		}
		if a.at != atStart {
			add("killed", Disconnected{id}, func(w *world) { w.a[i].dead = true })
		}
	}
	if w.serves > 0 && !w.xAsked {
		add("X redeems", Redeem{x, true, true}, func(w *world) { w.xAsked = true; w.pending |= 1 << x })
	}
	if w.minting != 0 {
		req := w.minting
		add("minted", Minted{req, true}, func(w *world) { w.minting = 0 })
		add("mint fails", Minted{req, false}, func(w *world) { w.minting = 0 })
	}
	for _, t := range w.timers {
		name, id, _ := strings.Cut(t, "/")
		var c int
		fmt.Sscan(id, &c)
		add("time "+t, TimedOut{Timer(name), Conn(c)}, func(w *world) {
			w.timers = slices.DeleteFunc(w.timers, func(s string) bool { return s == t })
		})
	}
	if w.core.Phase() != Gone {
		add("lease ends", Ended{}, nil)
	}
	add("relay crashes", nil, nil)
	return out
}

// check is what must hold in every state.
func (w *world) check() error {
	switch {
	case w.serves > 1:
		return fmt.Errorf("the envelope was served %d times", w.serves)
	case w.grants > 1 || w.mints > 1:
		return fmt.Errorf("the bearer was minted %d and granted %d times", w.mints, w.grants)
	case w.closed > 1:
		return fmt.Errorf("closed %d times", w.closed)
	case w.serves == 1 && w.handle:
		return fmt.Errorf("the handle is still there after it was served")
	case w.core.Phase() == Gone && (w.handle || w.kept || w.pending != 0 && w.minting == 0 || len(w.timers) != 0):
		return fmt.Errorf("gone, and left behind: handle %v, deposit %v, requests %b, timers %v", w.handle, w.kept, w.pending, w.timers)
	case w.core.Phase() == Gone != (w.closed == 1):
		return fmt.Errorf("phase %s and closed %d times", w.core.Phase(), w.closed)
	}
	for _, a := range w.a {
		if (a.name == 'T' || a.name == 'S') && (a.served || a.bearer) {
			return fmt.Errorf("%c has got hold of something", a.name)
		}
	}
	for _, k := range w.core.conns {
		a := w.a[k.id-1]
		if a.refused {
			return fmt.Errorf("%c was refused and is still connected", a.name)
		}
		if k.stage == challenged && !slices.Contains(w.timers, timerKey(Step, k.id)) {
			return fmt.Errorf("%c was challenged without a deadline", a.name)
		}
	}
	switch w.core.Phase() {
	case Waiting:
		if !slices.Contains(w.timers, timerKey(Unconsumed, 0)) {
			return fmt.Errorf("waits without a deadline")
		}
	case Served, Redeeming, Redeemed, Proven:
		if !slices.Contains(w.timers, timerKey(Settle, 0)) {
			return fmt.Errorf("%s without a deadline", w.core.Phase())
		}
		if h := w.core.holder; h == 0 || w.a[h-1].dead {
			return fmt.Errorf("%s, and who holds the envelope has ended", w.core.Phase())
		}
	case Kept:
		for _, k := range w.core.conns {
			if k.stage == parked {
				return fmt.Errorf("%c is parked though the deposit is there", w.a[k.id-1].name)
			}
		}
	}
	return nil
}

// settles follows the timers alone: with nobody doing anything any more the
// relay must come to rest (deposited or gone) with nobody left hanging.
func (w *world) settles() error {
	n := w.clone()
	for range 20 {
		if len(n.timers) == 0 {
			break
		}
		t := n.timers[0]
		name, id, _ := strings.Cut(t, "/")
		var c int
		fmt.Sscan(id, &c)
		n.timers = n.timers[1:]
		if err := n.do(TimedOut{Timer(name), Conn(c)}); err != nil {
			return err
		}
	}
	if p := n.core.Phase(); len(n.timers) != 0 || p != Kept && p != Gone {
		return fmt.Errorf("comes to no rest: %s, timers %v", p, n.timers)
	}
	return nil
}

// violates holds what the machine does about an event against what the event
// really was, which the machine can't be trusted to have looked at.
func violates(ev Event, actions []Action) error {
	for _, act := range actions {
		switch act.(type) {
		case Serve, Reuse:
			if e, ok := ev.(Answered); ok && (!e.Right || e.Refusal != "") {
				return fmt.Errorf("served after %+v", e)
			}
		case Mint:
			if e, ok := ev.(Redeem); !ok || !e.Handle || !e.Bound {
				return fmt.Errorf("a bearer is minted for %+v", ev)
			}
		case Grant:
			if e, ok := ev.(Minted); !ok || !e.OK {
				return fmt.Errorf("granted after %+v", ev)
			}
		case Attest:
			if e, ok := ev.(Prove); !ok || !e.Bearer {
				return fmt.Errorf("attested after %+v", ev)
			}
		case Keep:
			if e, ok := ev.(Deposit); !ok || !e.Bearer {
				return fmt.Errorf("kept after %+v", ev)
			}
		}
	}
	return nil
}

// explored is what an exploration has seen.
type explored struct {
	states, transitions int
	phases              map[Phase]int
	reused, breached    int
}

// explore follows every schedule of a machine with this rule and ends at the
// first violation, which is a shortest one.
func explore(rule rule) (explored, error) {
	seen := explored{phases: map[Phase]int{}}
	first, actions := New()
	start := &world{core: *first, handle: true, rule: rule}
	for i, name := range []byte("ABTS") {
		start.a[i].name = name
	}
	if err := start.perform(actions); err != nil {
		return seen, err
	}
	type node struct {
		w    *world
		from int
		by   string
	}
	nodes := []node{{start, -1, ""}}
	known := map[string]bool{start.key(): true}
	trace := func(i int, by string) string {
		steps := []string{by}
		for ; i > 0; i = nodes[i].from {
			steps = append(steps, nodes[i].by)
		}
		slices.Reverse(steps)
		return strings.Join(steps, " → ")
	}
	for i := 0; i < len(nodes); i++ {
		w := nodes[i].w
		nodes[i].w = nil
		seen.phases[w.core.Phase()]++
		for _, m := range w.moves() {
			seen.transitions++
			n := w.clone()
			if m.pre != nil {
				m.pre(n)
			}
			var err error
			if m.ev == nil { // all of the relay's memory is gone with it
				n.crashed, n.handle, n.kept = true, false, false
			} else if err = n.do(m.ev); err == nil {
				if err = n.check(); err == nil {
					err = n.settles()
				}
			}
			if r, ok := m.ev.(Redeem); ok && err == nil && r.Req == x {
				seen.breached++
				if n.core.Phase() != Redeeming && n.core.Phase() != Gone {
					err = fmt.Errorf("a second redemption and the lease goes on: %s", n.core.Phase())
				}
			}
			if err != nil {
				return seen, fmt.Errorf("%w\nafter %s", err, trace(i, m.name))
			}
			if n.crashed {
				continue
			}
			if n.a[0].reused || n.a[1].reused {
				seen.reused++
			}
			if k := n.key(); !known[k] {
				known[k] = true
				nodes = append(nodes, node{n, i, m.name})
			}
		}
	}
	seen.states = len(nodes)
	return seen, nil
}

// TestModel_EveryInterleaving is `just model`.
func TestModel_EveryInterleaving(t *testing.T) {
	seen, err := explore(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Phase{Waiting, Served, Redeeming, Redeemed, Proven, Kept, Gone} {
		if seen.phases[p] == 0 {
			t.Errorf("%s is never reached: the exploration shows nothing about it", p)
		}
	}
	if seen.reused == 0 || seen.breached == 0 {
		t.Errorf("reuse in %d and second redemptions in %d transitions: the exploration misses them", seen.reused, seen.breached)
	}
	t.Logf("%d states, %d transitions; by phase %v", seen.states, seen.transitions, seen.phases)
}
