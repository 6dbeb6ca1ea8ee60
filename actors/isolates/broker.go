package isolates

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates/wire"
	"sophia/actors/supervise"
	"sophia/messages/problem"
)

// Status is what the pool looks like.
type Status struct {
	Idle, Starting, Running, Waiting int
	Leased                           int   // runs so far
	Failures                         int   // workers in a row that failed before they were of use
	Last                             error // why the last of them did
	Report                           wire.Report
	Compiler                         error // why nothing can be compiled
}

// Messages to the broker.
type (
	acquire   struct{ connection string }
	askStatus struct{}
	retry     struct{}
	topUp     struct{}
	added     struct {
		ref *supervise.Ref
		err error
	}
)

const (
	maxWaitingEach = 32 // requests of one connection
	maxWaiting     = 256
	// After as many failed starts in a row, requests fail instead of waiting.
	giveUpAfter = 3
	topUpAfter  = 50 * time.Millisecond
	backoffBase = 100 * time.Millisecond
	backoffMax  = 30 * time.Second
)

// broker decides who gets the next worker, and when one is started.
type broker struct {
	svc *Service
	cfg *Config

	ref    *supervise.Ref
	queue  queue[supervise.Reply]
	known  map[*supervise.Ref]*lifeOf
	idle   []*supervise.Ref
	adding int // workers asked for whose Ref is not known yet
	// idleEnds counts workers in a row that became ready and ended before anybody
	// used them: starting the next at once would be a loop without an end.
	idleEnds int
	backoff  *supervise.Timer
	topUp    *supervise.Timer
	status   Status
}

// lifeOf is what the broker knows of a worker.
type lifeOf struct {
	up         bool
	running    bool
	connection string // while running
}

func (b *broker) Receive(c *actor.Context) {
	switch msg := c.Message().(type) {
	case actor.Started:
		b.known = map[*supervise.Ref]*lifeOf{}
		b.queue.share = (b.cfg.Max + 1) / 2
		b.ref = supervise.Self(c)
		b.svc.broker.Store(b.ref)
		b.fill(c)
	case acquire:
		b.acquire(c, msg)
	case added:
		b.added(c, msg)
	case workerUp:
		b.up(c, msg)
	case supervise.Down:
		b.down(c, msg)
	case topUp:
		b.topUp = nil
		b.fill(c)
	case retry:
		b.backoff = nil
		b.fill(c)
	case askStatus:
		s := b.status
		s.Idle, s.Running, s.Waiting = len(b.idle), b.running(), b.queue.waiting
		s.Starting = b.adding + len(b.known) - s.Idle - s.Running
		supervise.ReplyTo(c).Send(s)
	}
}

func (b *broker) acquire(c *actor.Context, msg acquire) {
	reply := supervise.ReplyTo(c)
	switch {
	case b.status.Failures >= giveUpAfter && len(b.idle) == 0:
		reply.Send(problem.Of(b.status.Last))
		return
	case b.queue.waiting >= maxWaiting || !b.queue.push(msg.connection, reply, maxWaitingEach):
		reply.Send(problem.New("isolate_queue_full", "Too many runs are waiting for an isolate").WithHint("Wait for the runs that are under way, then try again."))
		return
	}
	b.dispatch(c)
}

// dispatch brings idle workers and waiting requests together.
func (b *broker) dispatch(c *actor.Context) {
	lending := false
	for len(b.idle) > 0 {
		connection, reply, due := b.queue.pop()
		if !due {
			break
		}
		if !reply.Wanted() { // went away while it waited
			b.queue.done(connection)
			continue
		}
		var ref *supervise.Ref
		ref, b.idle = b.idle[0], b.idle[1:]
		if ref.Send(leased{}) != nil { // its Down is on the way
			b.queue.done(connection)
			b.queue.push(connection, reply, maxWaitingEach+1)
			continue
		}
		w := b.known[ref]
		w.running, w.connection = true, connection
		b.status.Leased++
		b.idleEnds, b.status.Failures, b.status.Last = 0, 0, nil // they can be used
		reply.Send(ref)
		lending = true
	}
	if lending && len(b.idle) > 0 {
		// Starting a process takes many times what a run takes: while somebody can
		// still be served at once, the run goes first.
		if b.topUp == nil {
			b.topUp = supervise.After(c, topUpAfter, topUp{})
		}
		return
	}
	if !lending && b.queue.due() > 0 { // who waits goes first: the spares would only hold up what is starting
		b.start(c, 0)
		return
	}
	b.fill(c)
}

func (b *broker) running() (n int) {
	for _, w := range b.known {
		if w.running {
			n++
		}
	}
	return n
}

// fill starts workers until enough are warm or on the way.
func (b *broker) fill(c *actor.Context) { b.start(c, b.cfg.Warm) }

// start starts workers for who waits, and so many to spare.
func (b *broker) start(c *actor.Context, spares int) {
	if b.backoff != nil {
		return
	}
	running := b.running()
	coming := b.adding + len(b.known) - running // idle ones included
	want := min(spares+b.queue.due(), b.cfg.Max-running) - coming
	if b.status.Failures > 0 {
		want = min(want, 1-b.adding-(len(b.known)-running-len(b.idle))) // one at a time, to see
	}
	for ; want > 0; want-- {
		b.adding++
		workers, cfg, self := supervise.Home(c).Sub("workers"), b.cfg, b.ref // its current life
		id := "w" + strconv.FormatUint(b.svc.sequence.Add(1), 10)
		supervise.Go(c, func(context.Context) any {
			ref, err := workers.Add(supervise.Spec{
				ID: id, Restart: supervise.Temporary, Inbox: 16, Stop: supervise.Stop{Grace: 100 * time.Millisecond, Kill: 2 * time.Second},
				New: func() actor.Receiver { return &worker{cfg: cfg, broker: self, jobs: make(chan pendingJob, 1)} },
			})
			return added{ref, err}
		})
	}
}

func (b *broker) added(c *actor.Context, msg added) {
	b.adding--
	if msg.err != nil {
		b.failed(c, msg.err)
		return
	}
	if b.known[msg.ref] == nil { // its workerUp may have been faster
		b.known[msg.ref] = &lifeOf{}
		msg.ref.Monitor(b.ref)
	}
}

func (b *broker) up(c *actor.Context, msg workerUp) {
	w := b.known[msg.ref]
	if w == nil {
		w = &lifeOf{}
		b.known[msg.ref] = w
		msg.ref.Monitor(b.ref)
	}
	w.up = true
	b.status.Report = msg.report
	if b.idleEnds == 0 {
		b.status.Failures, b.status.Last = 0, nil
	}
	b.idle = append(b.idle, msg.ref)
	b.dispatch(c)
}

func (b *broker) down(c *actor.Context, msg supervise.Down) {
	w := b.known[msg.Ref]
	if w == nil {
		return
	}
	delete(b.known, msg.Ref)
	for i, ref := range b.idle {
		if ref == msg.Ref {
			b.idle = append(b.idle[:i], b.idle[i+1:]...)
			break
		}
	}
	if w.running {
		b.queue.done(w.connection)
	}
	switch {
	case !w.up && msg.Reason != nil && msg.Reason != supervise.ErrShutdown:
		b.failed(c, msg.Reason)
		return
	case w.up && !w.running && errors.Is(msg.Reason, errIdleEnd):
		if b.backoff == nil {
			b.status.Failures = b.idleEnds
			b.idleEnds++
		}
		b.failed(c, msg.Reason)
		return
	}
	b.dispatch(c)
}

// failed counts a start that came to nothing; all that fail at once are one
// failure. Starts are tried again later and later; who waits is told at once when
// that has happened a few times.
func (b *broker) failed(c *actor.Context, why error) {
	if b.backoff != nil {
		return
	}
	b.status.Failures++
	b.status.Last = why
	wait := min(backoffBase<<min(b.status.Failures-1, 16), backoffMax)
	b.cfg.Log.Warn("an isolate worker failed", slog.Int("failures", b.status.Failures), slog.Duration("next_try_in", wait), slog.Any("error", why))
	b.backoff = supervise.After(c, wait, retry{})
	if b.status.Failures >= giveUpAfter && len(b.idle) == 0 {
		for _, reply := range b.queue.drain() {
			reply.Send(problem.Of(why))
		}
	}
}
