package launches

import (
	"context"
	"fmt"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/messages"
)

// hostRetry is how long the unit and the cleanup wait before they try again
// what the host refused (D-Bus restarting, a folder in use).
const hostRetry = time.Second

// unitActor watches and stops the launch's unit.
type unitActor struct {
	s  *Service
	la *launch
}

func (u *unitActor) Receive(c *actor.Context) {
	launch, host := u.la.id, u.s.p.Host
	switch m := c.Message().(type) {
	case actor.Started:
		tell(c, here{idUnit, supervise.Self(c)})
	case watchUnit:
		supervise.Go(c, func(ctx context.Context) any {
			report, err := host.Watch(ctx, launch, m.unit)
			if err != nil {
				return failed{err, m}
			}
			return gone(report)
		})
	case stopUnit:
		supervise.Go(c, func(ctx context.Context) any {
			if err := host.Stop(ctx, launch, m.unit); err != nil {
				return failed{err, m}
			}
			return lease.UnitGone{}
		})
	case lease.UnitGone:
		tell(c, m)
	case failed:
		again(c, u.s, launch, m)
	}
}

// gone is what the host's last report says about the end of its unit.
func gone(r messages.HostReport) lease.UnitGone {
	switch {
	case r.Stage == messages.StageRefused:
		return lease.UnitGone{Code: r.Code, Reason: r.Message}
	case r.Stage == messages.StageExited && r.Stopped:
		return lease.UnitGone{Code: lease.CodeUnitStopped, Reason: "Its unit was stopped: Sophia was stopped, you logged out, or somebody asked systemd for it."}
	case r.Stage == messages.StageExited && (r.ExitCode != 0 || r.Signal != ""):
		return lease.UnitGone{Code: "harness_failed", Reason: failure(r)}
	case r.Stage == messages.StageExited:
		return lease.UnitGone{}
	}
	return lease.UnitGone{Code: "host_lost", Reason: "The host ended without a report."}
}

// failure says how a harness ended that did not end well.
func failure(r messages.HostReport) string {
	if r.Signal != "" {
		return fmt.Sprintf("The harness was ended by a signal: %s.", r.Signal)
	}
	return fmt.Sprintf("The harness ended with the exit code %d.", r.ExitCode)
}

// cleanupActor is the quiescence gate and what comes behind it.
type cleanupActor struct {
	s  *Service
	la *launch
}

func (q *cleanupActor) Receive(c *actor.Context) {
	launch, host := q.la.id, q.s.p.Host
	switch m := c.Message().(type) {
	case actor.Started:
		tell(c, here{idCleanup, supervise.Self(c)})
	case gate:
		bound := q.s.o.QuietBound
		supervise.Go(c, func(ctx context.Context) any {
			alive, err := host.Quiet(ctx, launch, m.unit, bound)
			switch {
			case err != nil:
				return failed{err, m}
			case alive != "":
				return unquiet{alive, m}
			}
			return lease.Quiet{}
		})
	case unquiet:
		tell(c, lease.Unquiet{Survivors: m.survivors})
		_ = supervise.Self(c).Send(m.again) // goes on watching
	case compare:
		supervise.Go(c, func(ctx context.Context) any {
			ev, err := host.Compare(ctx, m.lease)
			if err != nil {
				return failed{err, m}
			}
			return lease.Compared{Evidence: ev}
		})
	case remove:
		supervise.Go(c, func(ctx context.Context) any {
			if err := host.Remove(ctx, launch); err != nil {
				return failed{err, m}
			}
			return lease.Removed{}
		})
	case strip:
		supervise.Go(c, func(ctx context.Context) any {
			if err := host.Strip(ctx, m.lease); err != nil {
				return failed{err, m}
			}
			return lease.Removed{}
		})
	case lease.Event:
		tell(c, m)
	case failed:
		again(c, q.s, launch, m)
	}
}

type unquiet struct {
	survivors string
	again     gate
}

// failed is work that the host refused, and the message that asked for it.
type failed struct {
	err error
	msg any
}

func again(c *actor.Context, s *Service, launch string, f failed) {
	s.o.Log.Warn("the host refused; trying again", "launch", launch, "err", f.err)
	supervise.After(c, hostRetry, f.msg)
}

// askOwner waits for the owner's answer to a plan.
func (s *Service) askOwner(ctx context.Context, l messages.Lease, terminal string) lease.Event {
	now := time.Now()
	v, err := s.p.Gate.Request(ctx, messages.ApprovalRequest{
		Kind: messages.ApproveLaunch, Requester: "sophia agent start", Terminal: terminal, Title: title(l.Plan), Details: details(l.Plan),
		Digest: l.PlanDigest, Requested: now, Expires: now.Add(s.o.ApprovalTTL),
	})
	if err != nil {
		return refused(err)
	}
	return lease.Verdict{Outcome: v.Outcome, Digest: v.Digest, Reason: v.Reason}
}

// match compiles what would run now and compares it with what was approved.
func (s *Service) match(ctx context.Context, approved messages.Plan, o Order) lease.Event {
	operation, err := s.p.Planner.Compile(ctx, o)
	if err == nil {
		err = lease.Mismatch(approved, operation)
	}
	if err != nil {
		return refused(err)
	}
	return lease.Matched{}
}
