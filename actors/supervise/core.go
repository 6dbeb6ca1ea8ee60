package supervise

import "time"

// core is a supervisor without actors, goroutines or clocks: events go in,
// actions come out, and now is a time since the tree's start, so that a jump of
// the wall clock does not move the restart window.
//
// Starts and stops go through one lane: stops last to first, one at a time;
// then the back-off, once; then starts first to last, one at a time. OneForOne
// uses the lane for the first start and for the end only, and otherwise treats
// each child alone, so that a slow child holds up nobody else.
type core struct {
	strategy Strategy
	max      int
	within   time.Duration
	delay    func(n int) time.Duration
	life     func() uint64 // numbers the lives, from 1

	first, last *kid // by order of start
	low         *kid // no kid before it is waiting
	high        *kid // no kid after it is marked
	kids        int
	seq         uint64

	crashes  []time.Duration // within the window
	wait     time.Duration   // back-off that the next starts owe
	armed    bool            // it runs
	starting int             // kids in the state starting
	stopping int             // kids in the state stopping
	begun    bool            // boot was called
	booted   bool            // every first child has started
	closing  bool
	why      error
	over     bool
}

// kid is what the core knows of a child.
type kid struct {
	id         string
	restart    Restart
	life       life
	dynamic    bool // added later: forgotten when it ends for good
	fresh      bool // has not started yet, and somebody waits to hear
	gone       bool // to be forgotten when it has stopped
	fails      int  // OneForOne: failures in a row, each within the window of the one before
	failedAt   time.Duration
	restarts   int
	gen, seq   uint64
	since      time.Duration // of the last change of life
	prev, next *kid
	m          *member // the shell's part
}

type life uint8

const (
	down     life = iota // ended for good, or not begun
	waiting              // for its turn to start
	resting              // OneForOne: for its own back-off
	starting             // until it has handled Started
	up
	marked // runs, and waits for its turn to stop
	stopping
)

func (l life) String() string {
	return [...]string{"down", "waiting", "backoff", "starting", "up", "marked", "stopping"}[l]
}

func (l life) runs() bool { return l >= starting }

type verb uint8

const (
	doStart  verb = iota // a new life of k
	doStop               // k's life
	doRest               // wait d, then rested(k, gen); a nil k is the lane
	doTell               // k failed for the n-th time and restarts after d
	doReady              // k has started for the first time
	doFailed             // k has not, because of err
	doForget             // k is no longer a child
	doBooted             // all first children have started
	doGiveUp             // k failed once too often; the end follows
	doFinish             // nobody is left
)

type action struct {
	do  verb
	k   *kid
	n   int
	d   time.Duration
	err error
}

// boot starts the first children, which were added before.
func (c *core) boot(now time.Duration) []action {
	c.begun = true
	return c.step(now, nil)
}

// add appends a child. It starts when its turn comes.
func (c *core) add(k *kid, now time.Duration) []action {
	c.seq++
	k.seq, k.fresh, k.dynamic = c.seq, true, c.begun
	if k.prev = c.last; k.prev != nil {
		k.prev.next = k
	} else {
		c.first = k
	}
	c.last = k
	c.kids++
	if c.booted && c.strategy == OneForOne {
		return c.start(k, now, nil)
	}
	c.await(k, now)
	if !c.begun {
		return nil
	}
	return c.step(now, nil)
}

// started says that this life has handled Started.
func (c *core) started(k *kid, gen uint64, now time.Duration) []action {
	if k.gen != gen || !k.life.runs() {
		return nil
	}
	var out []action
	if k.fresh {
		k.fresh = false
		out = append(out, action{do: doReady, k: k})
	}
	if k.life != starting {
		return out
	}
	c.starting--
	c.set(k, up, now)
	return c.step(now, out)
}

// exited says that this life is over, or was abandoned.
func (c *core) exited(k *kid, gen uint64, reason error, now time.Duration) []action {
	if k.gen != gen || !k.life.runs() {
		return nil // a life that is over already
	}
	was := k.life
	c.uncount(k)
	c.set(k, down, now)
	if c.closing || k.gone {
		return c.step(now, c.drop(k, now, nil))
	}
	if k.fresh && was == starting { // not a failure to recover from, but one to report
		if k.dynamic {
			k.fresh = false
			out := []action{{do: doFailed, k: k, err: reason}}
			return c.step(now, c.drop(k, now, out))
		}
		return c.close(&StartError{Path: k.id, Reason: reason}, now, nil)
	}
	if k.restart == Temporary || k.restart == Transient && reason == nil {
		return c.step(now, c.drop(k, now, nil))
	}
	if was == marked || was == stopping {
		c.await(k, now)
		return c.step(now, nil)
	}
	return c.failed(k, reason, now)
}

// failed decides what follows when a child ended that should be running.
func (c *core) failed(k *kid, reason error, now time.Duration) []action {
	c.crashes = append(c.crashes, now)
	for c.within > 0 && now-c.crashes[0] > c.within {
		c.crashes = c.crashes[1:]
	}
	k.restarts++
	if len(c.crashes) > c.max {
		err := &GaveUpError{Child: k.id, Max: c.max, Within: c.within, Reason: reason}
		return c.close(err, now, []action{{do: doGiveUp, k: k, err: err}})
	}
	if c.strategy == OneForOne {
		if c.within > 0 && now-k.failedAt > c.within {
			k.fails = 0
		}
		k.fails, k.failedAt = k.fails+1, now
		d := c.delay(k.fails)
		out := []action{{do: doTell, k: k, n: k.fails, d: d, err: reason}}
		if !c.booted { // the lane is busy with the first start: keep its order
			c.wait = max(c.wait, d)
			c.await(k, now)
			return c.step(now, out)
		}
		if d > 0 {
			c.set(k, resting, now)
			return append(out, action{do: doRest, k: k, d: d})
		}
		return c.start(k, now, out)
	}
	c.await(k, now)
	c.wait = c.delay(len(c.crashes))
	from := c.first
	if c.strategy == RestForOne {
		from = k
	}
	for s := from; s != nil; s = s.next {
		if s.life == up || s.life == starting {
			c.mark(s, now)
		}
	}
	return c.step(now, []action{{do: doTell, k: k, n: len(c.crashes), d: c.wait, err: reason}})
}

// rested says that a back-off is over: the lane's when k is nil.
func (c *core) rested(k *kid, gen uint64, now time.Duration) []action {
	if k == nil {
		c.armed = false
		return c.step(now, nil)
	}
	if k.gen != gen || k.life != resting || c.closing {
		return nil
	}
	return c.start(k, now, nil)
}

// remove stops a child and forgets it.
func (c *core) remove(k *kid, now time.Duration) []action {
	k.gone = true
	switch k.life {
	case down, waiting, resting:
		return c.step(now, c.drop(k, now, nil))
	case starting, up:
		if c.strategy == OneForOne && !c.closing {
			return c.halting(k, now, nil)
		}
		c.mark(k, now)
	}
	return c.step(now, nil)
}

// stop ends the tree.
func (c *core) stop(now time.Duration) []action { return c.close(nil, now, nil) }

func (c *core) close(why error, now time.Duration, out []action) []action {
	if !c.closing {
		c.closing, c.why = true, why
	}
	return c.step(now, out)
}

// step makes the one next move that the order of children allows.
func (c *core) step(now time.Duration, out []action) []action {
	if c.closing {
		return c.stepClosing(now, out)
	}
	if c.strategy != OneForOne {
		if c.stopping > 0 {
			return out
		}
		for k := c.high; k != nil; k = k.prev {
			c.high = k
			if k.life == marked {
				return c.halting(k, now, out)
			}
		}
		c.high = nil
	} else if c.booted {
		return out
	}
	if c.starting > 0 || c.armed {
		return out
	}
	for k := c.low; k != nil; k = k.next {
		c.low = k
		if k.life != waiting {
			continue
		}
		if c.wait > 0 {
			d := c.wait
			c.wait, c.armed = 0, true
			return append(out, action{do: doRest, d: d})
		}
		return c.start(k, now, out)
	}
	c.low, c.wait = nil, 0
	if !c.booted {
		c.booted = true
		out = append(out, action{do: doBooted})
	}
	return out
}

// stepClosing stops who is left, last to first.
func (c *core) stepClosing(now time.Duration, out []action) []action {
	if c.strategy != OneForOne && c.stopping > 0 {
		return out // perhaps not the last one: it may have been on its way out before
	}
	for k := c.last; k != nil; k = c.last {
		switch k.life {
		case stopping:
			return out
		case starting, up, marked:
			return c.halting(k, now, out)
		}
		out = c.drop(k, now, out)
	}
	if !c.over {
		c.over = true
		out = append(out, action{do: doFinish, err: c.why})
	}
	return out
}

func (c *core) start(k *kid, now time.Duration, out []action) []action {
	k.gen = c.life()
	c.starting++
	c.set(k, starting, now)
	return append(out, action{do: doStart, k: k})
}

func (c *core) halting(k *kid, now time.Duration, out []action) []action {
	if k.life == starting {
		c.starting--
	}
	c.stopping++
	c.set(k, stopping, now)
	return append(out, action{do: doStop, k: k})
}

// uncount takes a kid that has ended out of the counts.
func (c *core) uncount(k *kid) {
	switch k.life {
	case starting:
		c.starting--
	case stopping:
		c.stopping--
	}
}

func (c *core) await(k *kid, now time.Duration) {
	c.set(k, waiting, now)
	if c.low == nil || k.seq < c.low.seq {
		c.low = k
	}
}

func (c *core) mark(k *kid, now time.Duration) {
	if k.life == starting {
		c.starting--
	}
	c.set(k, marked, now)
	if c.high == nil || k.seq > c.high.seq {
		c.high = k
	}
}

// drop lets a kid that has ended for good rest in peace: it stays listed as
// down unless it came later, is Temporary, was removed, or the tree ends.
func (c *core) drop(k *kid, now time.Duration, out []action) []action {
	if k.life != down {
		c.set(k, down, now)
	}
	if k.fresh {
		k.fresh = false
		out = append(out, action{do: doFailed, k: k, err: ErrShutdown})
	}
	if !(c.closing || k.gone || k.dynamic || k.restart == Temporary) {
		return out
	}
	if c.low == k {
		c.low = k.next
	}
	if c.high == k {
		c.high = k.prev
	}
	if k.prev != nil {
		k.prev.next = k.next
	} else {
		c.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	} else {
		c.last = k.prev
	}
	k.prev, k.next = nil, nil
	c.kids--
	return append(out, action{do: doForget, k: k})
}

func (c *core) set(k *kid, l life, now time.Duration) { k.life, k.since = l, now }
