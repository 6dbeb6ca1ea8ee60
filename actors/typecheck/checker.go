package typecheck

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

const (
	backoffBase = 200 * time.Millisecond
	backoffMax  = time.Minute
	maxWaiting  = 64
)

// Messages of the actor to itself.
type (
	ready struct{ version string }
	ended struct{ err error }
	retry struct{}
)

// checker owns the compiler's process: one at a time, and one check at a time.
type checker struct {
	svc *Service
	cfg *Config

	jobs     chan job
	resting  bool // until the next start
	version  string
	failures int // in a row
	last     error
}

type job struct {
	ask
	reply supervise.Reply
}

func (k *checker) Receive(c *actor.Context) {
	switch msg := c.Message().(type) {
	case actor.Started:
		k.jobs = make(chan job, maxWaiting)
		k.svc.actor.Store(supervise.Self(c))
		if k.cfg.Program != "" {
			k.start(c)
		}
	case ask:
		reply := supervise.ReplyTo(c)
		if k.resting {
			reply.Send(Verdict{State: Skipped})
			return
		}
		select {
		case k.jobs <- job{msg, reply}:
		default:
			reply.Send(Verdict{State: Skipped})
		}
	case ready:
		k.version, k.failures, k.last = msg.version, 0, nil
	case ended:
		k.ended(c, msg.err)
	case retry:
		k.resting = false
		k.start(c)
	case askStatus:
		supervise.ReplyTo(c).Send(k.status())
	}
}

func (k *checker) status() Status {
	switch {
	case k.last != nil:
		return Status{Detail: "tsgo keeps ending: " + k.last.Error()}
	case k.version == "":
		return Status{On: true, Detail: "tsgo is starting"}
	}
	return Status{On: true, Detail: "tsgo " + k.version}
}

func (k *checker) start(c *actor.Context) {
	cfg, jobs, self := k.cfg, k.jobs, supervise.Self(c)
	supervise.Go(c, func(ctx context.Context) any { return ended{live(ctx, cfg, jobs, self)} })
}

// ended starts the next process: at once after one that served its time, and
// later and later when they end by themselves.
func (k *checker) ended(c *actor.Context, err error) {
	if errors.Is(err, errServed) {
		k.start(c)
		return
	}
	k.failures++
	k.last = err
	k.resting = true
	for len(k.jobs) > 0 {
		(<-k.jobs).reply.Send(Verdict{State: Skipped})
	}
	wait := min(backoffBase<<min(k.failures-1, 16), backoffMax)
	k.cfg.Log.Warn("the type checker ended", slog.Int("failures", k.failures), slog.Duration("next_try_in", wait), slog.Any("error", err))
	supervise.After(c, wait, retry{})
}

// maxChecks is how many checks one process makes: what it may gather in memory
// has an end.
const maxChecks = 5000

var errServed = errors.New("typecheck: the process served its time")

// live is the life of one process. It returns why it ended.
func live(ctx context.Context, cfg *Config, jobs <-chan job, self *supervise.Ref) error {
	s, err := startServer(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.open(); err != nil {
		return s.why(err)
	}
	if self.Send(ready{s.version}) != nil {
		return nil
	}
	for range maxChecks {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.gone:
			return s.why(errEnded)
		case j := <-jobs:
			if !j.reply.Wanted() {
				continue
			}
			verdict, err := s.check(j.code, j.sdk)
			j.reply.Send(verdict)
			if err != nil {
				return s.why(err)
			}
		}
	}
	return errServed
}
