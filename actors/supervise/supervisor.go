package supervise

import (
	"strconv"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// What the supervisor receives.
type (
	lifeStarted struct {
		m   *member
		gen uint64
	}
	lifeExited struct {
		m      *member
		gen    uint64
		reason error
	}
	// overdue: the grace of a life is over.
	overdue struct {
		m   *member
		gen uint64
	}
	// hopeless: so is its kill time.
	hopeless struct {
		m   *member
		gen uint64
	}
	// rested: a back-off is over. A nil m is the lane's.
	rested struct {
		m   *member
		gen uint64
	}
	addChild struct {
		spec Spec
		out  chan<- result
	}
	removeChild struct {
		id   string
		out  chan<- error
		free chan<- struct{}
	}
	stopTree    struct{}
	snapshotReq struct{ out chan<- []Status }
)

// supervisor performs what the core decides. It never blocks.
type supervisor struct {
	core
	t     *Tree
	lane  *time.Timer
	ended bool
}

// spawn starts the supervisor's actor. false: the engine has one of that name.
func (t *Tree) spawn(kids []Spec) bool {
	s := &supervisor{t: t, core: core{
		strategy: t.policy.Strategy, max: t.policy.Max,
		within: t.policy.Within, delay: t.policy.Backoff.delay,
		life: func() uint64 { return t.whole.lives.Add(1) },
	}}
	for _, k := range kids {
		s.admit(k, nil)
	}
	t.pid = actor.NewPID(t.engine.Address(), t.kind+"/supervisor#0")
	t.engine.Spawn(func() actor.Receiver { return s }, t.kind, actor.WithID("supervisor#0"),
		actor.WithInboxSize(8), actor.WithMaxRestarts(-1), actor.WithRestartDelay(0))
	return s.begun
}

// admit makes a child known under its ID.
func (s *supervisor) admit(spec Spec, added chan<- result) []action {
	m := &member{kid: kid{id: spec.ID, restart: spec.Restart}, spec: spec, added: added}
	m.kid.m = m
	s.t.mu.Lock()
	s.t.members[spec.ID] = m
	s.t.mu.Unlock()
	return s.add(&m.kid, s.now())
}

func (s *supervisor) now() time.Duration { return time.Since(s.t.epoch) }

// Receive implements actor.Receiver. A panic would be a defect of this package:
// it ends the tree with that reason instead of leaving it stuck.
func (s *supervisor) Receive(c *actor.Context) {
	defer func() {
		if v := recover(); v != nil && !s.ended {
			s.collapse(caught(v))
		}
	}()
	s.receive(c)
}

func (s *supervisor) receive(c *actor.Context) {
	now := s.now()
	switch m := c.Message().(type) {
	case actor.Started:
		s.do(s.boot(now))
	case lifeStarted:
		if m.m.gen == m.gen && m.m.life.runs() {
			if m.m.life == starting {
				s.disarm(m.m)
			}
			s.t.report(Started{Path: s.t.path + "/" + m.m.id, Gen: m.gen})
		}
		s.do(s.started(&m.m.kid, m.gen, now))
	case lifeExited:
		s.exit(m.m, m.gen, m.reason, now)
	case overdue:
		s.overdue(m.m, m.gen)
	case hopeless:
		s.abandon(m.m, m.gen, now)
	case rested:
		if m.m == nil {
			s.do(s.rested(nil, 0, now))
		} else {
			s.do(s.rested(&m.m.kid, m.gen, now))
		}
	case addChild:
		switch {
		case s.closing:
			m.out <- result{err: ErrDown}
		case s.t.members[m.spec.ID] != nil:
			m.out <- result{err: &StartError{Path: s.t.path + "/" + m.spec.ID, Reason: ErrExists}}
		default:
			s.do(s.admit(m.spec, m.out))
		}
	case removeChild:
		k := s.t.members[m.id]
		if k == nil {
			m.out <- ErrUnknown
			return
		}
		k.freed = append(k.freed, m.free)
		m.out <- nil
		s.do(s.remove(&k.kid, now))
	case stopTree:
		s.do(s.stop(now))
	case snapshotReq:
		m.out <- s.statuses()
	}
}

func (s *supervisor) exit(m *member, gen uint64, reason error, now time.Duration) {
	if m.gen != gen || !m.life.runs() {
		return
	}
	s.quiet(m)
	s.t.report(Exited{Path: s.t.path + "/" + m.id, Gen: gen, Reason: reason})
	s.do(s.exited(&m.kid, gen, reason, now))
}

// quiet takes an ended life out of what can be reached.
func (s *supervisor) quiet(m *member) {
	s.disarm(m)
	m.cut = false
	s.t.mu.Lock()
	m.ref = nil
	s.t.mu.Unlock()
}

func (s *supervisor) overdue(m *member, gen uint64) {
	if m.gen != gen || !m.life.runs() || m.cut || m.ref == nil {
		return
	}
	m.cut = true
	if m.life == starting {
		m.ref.mu.Lock()
		m.ref.blame = ErrSlow
		m.ref.mu.Unlock()
	}
	m.ref.close(cut)
	m.ref.cancel(ErrShutdown)
	s.arm(m, m.spec.Stop.kill(), hopeless{m, gen})
}

func (s *supervisor) abandon(m *member, gen uint64, now time.Duration) {
	if m.gen != gen || !m.life.runs() || m.ref == nil {
		return
	}
	ref := m.ref
	s.t.whole.add(ref)
	if !ref.end(ErrAbandoned) {
		s.t.whole.remove(ref) // it ended just now, and its exit is on the way
		return
	}
	s.quiet(m)
	s.t.report(Abandoned{Path: ref.Path(), Gen: gen})
	s.do(s.exited(&m.kid, gen, ErrAbandoned, now))
}

func (s *supervisor) do(actions []action) {
	for _, a := range actions {
		var m *member
		if a.k != nil {
			m = a.k.m
		}
		switch a.do {
		case doStart:
			s.begin(m)
		case doStop:
			s.halt(m)
		case doRest:
			if m == nil {
				s.lane = time.AfterFunc(a.d, func() { s.t.tell(rested{}) })
			} else {
				s.arm(m, a.d, rested{m, m.gen})
			}
		case doTell:
			s.t.report(Restarting{Path: s.t.path + "/" + m.id, Attempt: a.n, Delay: a.d, Reason: a.err})
		case doReady:
			if m.added != nil {
				m.added <- result{ref: m.ref}
				m.added = nil
			}
		case doFailed:
			if m.added != nil {
				m.added <- result{err: &StartError{Path: s.t.path + "/" + m.id, Reason: a.err}}
				m.added = nil
			}
		case doForget:
			s.forget(m)
		case doBooted:
			close(s.t.booted)
			if s.t.parent != nil {
				s.t.parent.tell(lifeStarted{s.t.m, s.t.ref.gen})
			}
		case doGiveUp:
			err := a.err.(*GaveUpError)
			err.Path = s.t.path
			s.t.report(GaveUp{Path: s.t.path, Reason: err})
		case doFinish:
			s.finish(a.err)
		}
	}
}

// begin starts a new life of m.
func (s *supervisor) begin(m *member) {
	t, gen := s.t, m.gen
	if m.spec.Tree != nil {
		sub := nest(t, m)
		r := &Ref{tree: t, sub: sub, id: m.id, gen: gen}
		r.state.Store(closed)
		sub.ref = r
		if !sub.spawn(m.spec.Tree.Kids) {
			t.tell(lifeExited{m, gen, ErrExists})
		}
		s.publish(m, r)
		return
	}
	limit := m.spec.Inbox
	if limit == 0 {
		limit = DefaultInbox
	}
	name := t.kind + "/" + m.id + "#" + strconv.FormatUint(gen, 10)
	c := &cell{m: m, Ref: Ref{tree: t, pid: actor.NewPID(t.engine.Address(), name), id: m.id, gen: gen, limit: int64(limit)}}
	ok := c.hatch()
	s.publish(m, &c.Ref) // not before: nothing may be ahead of Initialized in the inbox
	if !ok {
		t.tell(lifeExited{m, gen, ErrExists})
	} else if m.spec.StartWithin > 0 {
		s.arm(m, m.spec.StartWithin, overdue{m, gen})
	}
}

func (s *supervisor) publish(m *member, r *Ref) {
	s.t.mu.Lock()
	m.ref = r
	s.t.mu.Unlock()
}

// halt asks a life to stop.
func (s *supervisor) halt(m *member) {
	if m.ref.sub != nil {
		m.ref.sub.tell(stopTree{})
		return
	}
	if !m.cut { // it may be dying already, with its kill time running
		s.arm(m, m.spec.Stop.grace(), overdue{m, m.gen})
	}
	m.ref.close(asked)
}

func (s *supervisor) arm(m *member, d time.Duration, msg any) {
	s.disarm(m)
	m.timer = time.AfterFunc(d, func() { s.t.tell(msg) })
}

func (s *supervisor) disarm(m *member) {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}

func (s *supervisor) forget(m *member) {
	s.disarm(m)
	s.t.mu.Lock()
	delete(s.t.members, m.id)
	m.ref = nil
	s.t.mu.Unlock()
	for _, free := range m.freed {
		free <- struct{}{}
	}
	m.freed = nil
}

// finish is the last thing that the supervisor does.
func (s *supervisor) finish(why error) {
	t := s.t
	if e, ok := why.(*StartError); ok && e.Path != "" {
		why = &StartError{Path: t.path + "/" + e.Path, Reason: e.Reason}
	}
	if s.lane != nil {
		s.lane.Stop()
	}
	s.ended = true
	t.err = why
	close(t.done)
	t.engine.Stop(t.pid)
	if t.parent != nil {
		reason := why
		if reason == nil {
			reason = ErrShutdown
		}
		if t.ref.end(reason) {
			t.parent.tell(lifeExited{t.m, t.ref.gen, reason})
		}
	}
}

// collapse asks everyone to stop and ends the tree without waiting.
func (s *supervisor) collapse(why error) {
	s.closing, s.over = true, true
	for _, m := range s.t.members {
		s.disarm(m)
		if m.ref == nil {
			continue
		}
		if m.ref.sub != nil {
			m.ref.sub.tell(stopTree{})
			continue
		}
		m.ref.close(asked | cut)
		m.ref.cancel(ErrShutdown)
	}
	s.finish(why)
}
