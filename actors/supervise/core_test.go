package supervise

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// coreModel is a shell for the core that has no actors: it keeps who lives, and
// checks every action against what the design promises.
type coreModel struct {
	t       *rapid.T
	core    core
	now     time.Duration
	kids    []*kid          // all that were ever added and not forgotten, in order
	live    map[*kid]uint64 // generation that runs
	pending map[*kid]bool   // its stop was asked for
	rests   []action        // back-offs under way
	told    []time.Duration // restarts, for the window
	stops   []*kid          // since the last start
	booted  bool
	over    bool
	n       int
}

func (m *coreModel) perform(actions []action) {
	for _, a := range actions {
		if m.over {
			m.t.Fatalf("%v after the end", a.do)
		}
		switch a.do {
		case doStart:
			if gen, ok := m.live[a.k]; ok {
				m.t.Fatalf("%s starts although its life %d runs", a.k.id, gen)
			}
			if m.core.closing {
				m.t.Fatalf("%s starts while the tree ends", a.k.id)
			}
			if m.core.strategy != OneForOne && len(m.pending) > 0 {
				m.t.Fatalf("%s starts while a stop is pending", a.k.id)
			}
			if m.core.strategy != OneForOne {
				for k := range m.live {
					if k.life == starting {
						m.t.Fatalf("%s starts while %s is starting", a.k.id, k.id)
					}
				}
			}
			m.live[a.k] = a.k.gen
			m.stops = nil
		case doStop:
			if _, ok := m.live[a.k]; !ok || m.pending[a.k] {
				m.t.Fatalf("%s is stopped, but live %v, asked already %v", a.k.id, ok, m.pending[a.k])
			}
			if (m.core.closing || m.core.strategy != OneForOne) && len(m.stops) > 0 && len(m.pending) > 0 && !m.onlyRemoved() {
				m.t.Fatalf("%s is stopped while another one is stopping", a.k.id)
			}
			if m.core.closing {
				for k := range m.live {
					if k != a.k && k.seq > a.k.seq {
						m.t.Fatalf("%s is stopped before %s, which was started after it", a.k.id, k.id)
					}
				}
			}
			m.pending[a.k] = true
			m.stops = append(m.stops, a.k)
		case doRest:
			if a.d <= 0 {
				m.t.Fatalf("a back-off of %v", a.d)
			}
			if a.k == nil && slices.ContainsFunc(m.rests, func(r action) bool { return r.k == nil }) {
				m.t.Fatal("two back-offs for one regroup")
			}
			m.rests = append(m.rests, a)
		case doTell:
			m.told = append(m.told, m.now)
			if n := m.within(m.told); n > m.core.max {
				m.t.Fatalf("%d restarts within %v, at most %d are allowed", n, m.core.within, m.core.max)
			}
		case doGiveUp:
			m.told = append(m.told, m.now)
			if n := m.within(m.told); n <= m.core.max {
				m.t.Fatalf("gave up at failure %d within %v, %d restarts are allowed", n, m.core.within, m.core.max)
			}
		case doForget:
			if _, ok := m.live[a.k]; ok {
				m.t.Fatalf("%s is forgotten while it runs", a.k.id)
			}
			m.kids = slices.DeleteFunc(m.kids, func(k *kid) bool { return k == a.k })
		case doBooted:
			if m.booted {
				m.t.Fatal("booted twice")
			}
			m.booted = true
		case doFinish:
			if len(m.live) > 0 {
				m.t.Fatalf("the tree ended and %d children run", len(m.live))
			}
			m.over = true
		}
	}
}

// onlyRemoved reports whether all pending stops are removals of OneForOne
// children, which go on beside each other.
func (m *coreModel) onlyRemoved() bool {
	if m.core.strategy != OneForOne {
		return false
	}
	for k := range m.pending {
		if !k.gone {
			return false
		}
	}
	return true
}

func (m *coreModel) within(at []time.Duration) int {
	n := 0
	for _, t := range at {
		if m.core.within == 0 || m.now-t <= m.core.within {
			n++
		}
	}
	return n
}

func (m *coreModel) kid() *kid {
	m.n++
	k := &kid{
		id:      string(rune('a'+m.n%26)) + string(rune('0'+m.n/26%10)),
		restart: rapid.SampledFrom([]Restart{Permanent, Transient, Temporary}).Draw(m.t, "restart"),
	}
	m.kids = append(m.kids, k)
	return k
}

func (m *coreModel) pick(from []*kid) *kid {
	if len(from) == 0 {
		return nil
	}
	return rapid.SampledFrom(from).Draw(m.t, "kid")
}

// running returns the live kids in order.
func (m *coreModel) running() []*kid {
	var out []*kid
	for _, k := range m.kids {
		if _, ok := m.live[k]; ok {
			out = append(out, k)
		}
	}
	return out
}

func (m *coreModel) leave(k *kid, reason error) {
	gen := m.live[k]
	delete(m.live, k)
	asked := m.pending[k]
	delete(m.pending, k)
	failure := !asked && !m.core.closing && !k.gone && k.life == up &&
		(k.restart == Permanent || k.restart == Transient && reason != nil)
	before := m.running()
	wasUp := map[*kid]bool{}
	for _, b := range before {
		wasUp[b] = !m.pending[b] && b.life != marked
	}
	m.perform(m.core.exited(k, gen, reason, m.now))
	if failure && !m.core.closing {
		m.checkSet(k, before, wasUp)
	}
	if again := m.core.exited(k, gen, reason, m.now); again != nil {
		m.t.Fatalf("the exit of %s#%d counted twice", k.id, gen)
	}
}

// checkSet holds who is about to stop against the strategy.
func (m *coreModel) checkSet(failed *kid, before []*kid, wasUp map[*kid]bool) {
	for _, k := range before {
		if !wasUp[k] {
			continue
		}
		want := m.core.strategy == OneForAll || m.core.strategy == RestForOne && k.seq > failed.seq
		if got := k.life == marked || k.life == stopping; got != want {
			m.t.Fatalf("%v: after the failure of %s, %s is to stop: %v", m.core.strategy, failed.id, k.id, got)
		}
	}
}

func TestCore_Properties(t *testing.T) {
	failure := errors.New("failure")
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "backoff")
		m := &coreModel{t: t, live: map[*kid]uint64{}, pending: map[*kid]bool{}, core: core{
			strategy: rapid.SampledFrom([]Strategy{OneForOne, OneForAll, RestForOne}).Draw(t, "strategy"),
			max:      rapid.IntRange(0, 6).Draw(t, "max"),
			within:   rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Minute}).Draw(t, "within"),
			delay:    Backoff{Base: base}.delay,
		}}
		lives := uint64(0)
		m.core.life = func() uint64 { lives++; return lives }
		for range rapid.IntRange(0, 5).Draw(t, "kids") {
			m.perform(m.core.add(m.kid(), m.now))
		}
		m.perform(m.core.boot(m.now))
		m.drive(failure)
		m.finish(failure)
	})
}

func (m *coreModel) drive(failure error) {
	m.t.Repeat(map[string]func(*rapid.T){
		"started": func(*rapid.T) {
			if k := m.pick(slices.DeleteFunc(m.running(), func(k *kid) bool { return k.life != starting })); k != nil {
				m.perform(m.core.started(k, m.live[k], m.now))
			}
		},
		"stops": func(*rapid.T) {
			if k := m.pick(slices.DeleteFunc(m.running(), func(k *kid) bool { return !m.pending[k] })); k != nil {
				m.leave(k, rapid.SampledFrom([]error{nil, ErrShutdown, ErrAbandoned}).Draw(m.t, "reason"))
			}
		},
		"fails": func(*rapid.T) {
			if k := m.pick(m.running()); k != nil {
				m.leave(k, failure)
			}
		},
		"ends": func(*rapid.T) {
			if k := m.pick(m.running()); k != nil {
				m.leave(k, nil)
			}
		},
		"stale": func(*rapid.T) {
			if k := m.pick(m.kids); k != nil && k.gen > 0 {
				if a := m.core.exited(k, k.gen-1, failure, m.now); a != nil {
					m.t.Fatalf("a life that is over had an effect: %v", a)
				}
			}
		},
		"rested": func(*rapid.T) {
			if len(m.rests) == 0 {
				return
			}
			r := m.rests[0]
			m.rests = m.rests[1:]
			m.now += r.d
			gen := uint64(0)
			if r.k != nil {
				gen = r.k.gen
			}
			m.perform(m.core.rested(r.k, gen, m.now))
		},
		"add": func(*rapid.T) {
			if !m.core.closing && len(m.kids) < 8 {
				m.perform(m.core.add(m.kid(), m.now))
			}
		},
		"remove": func(*rapid.T) {
			if k := m.pick(m.kids); k != nil && !m.over {
				m.perform(m.core.remove(k, m.now))
			}
		},
		"time": func(*rapid.T) {
			m.now += time.Duration(rapid.IntRange(1, 4000).Draw(m.t, "ms")) * time.Millisecond
		},
		"": func(*rapid.T) {
			if m.core.over != m.over {
				m.t.Fatal("the end was not told")
			}
			for k, gen := range m.live {
				if k.gen != gen || !k.life.runs() {
					m.t.Fatalf("%s: the core thinks that %d is %v, and %d runs", k.id, k.gen, k.life, gen)
				}
			}
			m.idle()
		},
	})
}

// idle checks that nobody waits for an event that can't come: when nothing is
// under way, everybody who should run does.
func (m *coreModel) idle() {
	if m.core.closing || len(m.pending) > 0 || len(m.rests) > 0 {
		return
	}
	for k := range m.live {
		if k.life == starting {
			return
		}
	}
	for _, k := range m.kids {
		if k.life == waiting || k.life == resting || k.life == marked {
			m.t.Fatalf("nothing is under way, and %s is %v", k.id, k.life)
		}
	}
	if !m.booted {
		m.t.Fatal("nothing is under way, and the tree has not said that it started")
	}
}

// finish stops the tree; it must come to an end however its children behave.
func (m *coreModel) finish(failure error) {
	m.perform(m.core.stop(m.now))
	for range 100 {
		if m.over {
			return
		}
		for _, k := range m.running() {
			if m.pending[k] {
				m.leave(k, rapid.SampledFrom([]error{nil, failure}).Draw(m.t, "reason"))
				break
			}
		}
	}
	m.t.Fatal("the tree does not end")
}

func TestBackoff_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Base:   time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Max:    time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "max")),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Rand:   func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "rand") },
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		d, full := b.delay(n), Backoff{Base: b.Base, Max: b.Max}.delay(n)
		if b.Max > 0 && d > b.Max || d < 0 {
			t.Fatalf("waits %v, the longest is %v", d, b.Max)
		}
		if d > full || float64(d) < float64(full)*(1-b.Jitter)-1 {
			t.Fatalf("waits %v, which is not within a jitter of %v below %v", d, b.Jitter, full)
		}
		if next := (Backoff{Base: b.Base, Max: b.Max}).delay(n + 1); next < full {
			t.Fatalf("failure %d waits %v, and the one before %v", n+1, next, full)
		}
	})
}
