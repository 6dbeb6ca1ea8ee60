package lease

import (
	"slices"
	"strings"
	"time"

	"sophia/messages"
)

// Codes that the machine itself gives.
const (
	CodeDenied          = "approval_denied"
	CodeTimedOut        = "approval_timed_out"
	CodeWithdrawn       = "approval_withdrawn"
	CodePlanDigest      = "plan_digest_mismatch"
	CodeDaemonRestarted = "daemon_restarted"
	CodeActorRestarted  = "launch_actor_restarted"
	CodeEvidenceChanged = "isolation_evidence_changed"
	CodeHarnessUnknown  = "harness_unknown"
	CodeNeverProven     = "credential_never_proven"
	CodeUnitStopped     = "unit_stopped"
)

// Final says that nothing more happens to a lease in this state.
func Final(s messages.LeaseState) bool {
	switch s {
	case messages.LeaseEnded, messages.LeaseRefused, messages.LeaseDenied, messages.LeaseExpired, messages.LeaseFailed:
		return true
	}
	return false
}

// Keeps says that the folder of a launch outlives it: there is something in it
// that the owner needs.
func Keeps(l messages.Lease) bool {
	return l.Code == CodeEvidenceChanged || l.Code == CodeHarnessUnknown
}

// Evidencing is what a lease in that state waits for. What was compared once
// stands: the credential has gone back since, and the overlay may be half gone.
func Evidencing(l messages.Lease) Action {
	switch {
	case l.Evidence != nil && l.Evidence.Untouched:
		return Remove
	case l.Code == CodeEvidenceChanged:
		return Strip
	}
	return Compare
}

// Step applies one event. It returns the lease as it is then (a copy; the
// argument is not changed) and the actions to perform once it is stored. An
// event that means nothing in the lease's state changes nothing: changed is
// false and there are no actions.
func Step(l messages.Lease, ev Event, now time.Time) (next messages.Lease, actions []Action, changed bool) {
	l.History = slices.Clone(l.History)
	m := machine{l: l, now: now}
	m.apply(ev)
	return m.l, m.actions, m.changed
}

type machine struct {
	l       messages.Lease
	now     time.Time
	actions []Action
	changed bool
}

func (m *machine) apply(ev Event) {
	if Final(m.l.State) {
		return
	}
	switch e := ev.(type) {
	case Submitted:
		if m.in(messages.LeaseProposed) {
			m.to(messages.LeasePending, "", AskOwner)
		}
	case Verdict:
		if m.in(messages.LeasePending) {
			m.verdict(e)
		}
	case Matched:
		if m.in(messages.LeaseApproved) {
			m.to(messages.LeaseVerifying, "", Verify)
		}
	case Verified:
		if m.in(messages.LeaseVerifying) {
			m.l.Evidence = &messages.Evidence{Before: e.Before}
			m.to(messages.LeaseStarting, "", Start)
		}
	case Started:
		m.started(e)
	case Redeemed:
		if m.in(messages.LeaseStarting, messages.LeaseRedeeming) {
			m.l.Connection, m.l.Updated, m.changed = e.Connection, m.now, true
		}
	case Proven:
		if m.in(messages.LeaseRedeeming) {
			m.to(messages.LeaseRunning, "")
		}
	case Refused:
		m.refused(e)
	case Failed:
		if m.in(messages.LeaseStarting, messages.LeaseRedeeming, messages.LeaseRunning) {
			m.outcome(messages.LeaseFailed, e.Code, e.Reason)
			m.to(messages.LeaseStopping, e.Code, Revoke, StopUnit)
		}
	case StopAsked:
		m.stopAsked(e)
	case UnitGone:
		m.unitGone(e)
	case Quiet:
		if m.in(messages.LeaseQuiescing, messages.LeaseUnquiet) {
			m.to(messages.LeaseEvidencing, "", Compare)
		}
	case Unquiet:
		if m.in(messages.LeaseQuiescing) {
			m.to(messages.LeaseUnquiet, e.Survivors) // the gate goes on watching
		}
	case Compared:
		if m.in(messages.LeaseEvidencing) && Evidencing(m.l) == Compare {
			m.compared(e.Evidence)
		}
	case Removed:
		if m.in(messages.LeaseEvidencing) && Evidencing(m.l) != Compare {
			m.to(m.l.Outcome, m.l.Code)
		}
	case Recovered:
		m.recovered(e)
	}
}

func (m *machine) in(states ...messages.LeaseState) bool { return slices.Contains(states, m.l.State) }

func (m *machine) to(s messages.LeaseState, why string, actions ...Action) {
	m.l.State, m.l.Updated = s, m.now
	m.l.History = append(m.l.History, messages.LeaseStep{State: s, At: m.now, Why: why})
	m.actions = append(m.actions, actions...)
	m.changed = true
}

// outcome is where the ending leads to. The first reason stays: what follows
// from it is not the cause.
func (m *machine) outcome(s messages.LeaseState, code, reason string) {
	if m.l.Outcome == "" {
		m.l.Outcome, m.l.Code, m.l.Reason = s, code, reason
	}
}

// finish ends a launch of which nothing has been started.
func (m *machine) finish(s messages.LeaseState, code, reason string, actions ...Action) {
	m.outcome(s, code, reason)
	m.to(s, code, actions...)
}

func (m *machine) verdict(v Verdict) {
	switch v.Outcome {
	case messages.OutcomeApproved:
		if v.Digest != m.l.PlanDigest {
			m.finish(messages.LeaseRefused, CodePlanDigest, "The approval is for another plan than this one.")
			return
		}
		m.to(messages.LeaseApproved, "", Match)
	case messages.OutcomeTimedOut:
		m.finish(messages.LeaseExpired, CodeTimedOut, "Nobody answered in time.")
	case messages.OutcomeWithdrawn:
		m.finish(messages.LeaseRefused, CodeWithdrawn, "The request was withdrawn before an answer.")
	default:
		m.finish(messages.LeaseDenied, CodeDenied, strings.TrimSpace("The owner denied it. "+v.Reason))
	}
}

func (m *machine) started(e Started) {
	switch {
	case m.in(messages.LeaseStarting):
		m.l.Unit = e.Unit
		if m.l.Plan.LeaseSeconds > 0 {
			end := m.now.Add(time.Duration(m.l.Plan.LeaseSeconds) * time.Second)
			m.l.Expires = &end
		}
		m.to(messages.LeaseRedeeming, "", WatchUnit)
	case m.in(messages.LeaseStopping, messages.LeaseQuiescing):
		// The stop overtook the start: what has started now must stop too.
		m.l.Unit = e.Unit
		m.to(messages.LeaseStopping, "started_after_stop", Revoke, StopUnit)
	}
}

func (m *machine) refused(e Refused) {
	switch {
	case m.in(messages.LeaseProposed, messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying):
		m.finish(messages.LeaseRefused, e.Code, e.Reason)
	case m.in(messages.LeaseStarting):
		// How far the start came is not known: everything that follows a unit
		// follows this too.
		m.outcome(messages.LeaseRefused, e.Code, e.Reason)
		m.to(messages.LeaseStopping, e.Code, Revoke, StopUnit)
	case m.in(messages.LeaseStopping):
		m.outcome(messages.LeaseRefused, e.Code, e.Reason)
	}
}

func (m *machine) stopAsked(e StopAsked) {
	switch {
	case m.in(messages.LeaseProposed, messages.LeasePending):
		m.finish(messages.LeaseRefused, CodeWithdrawn, e.Reason, Withdraw)
	case m.in(messages.LeaseApproved, messages.LeaseVerifying):
		m.finish(messages.LeaseRefused, e.Code, e.Reason)
	case m.in(messages.LeaseStarting, messages.LeaseRedeeming, messages.LeaseRunning):
		m.outcome(messages.LeaseEnded, e.Code, e.Reason)
		m.to(messages.LeaseStopping, e.Code, Revoke, StopUnit)
	}
}

func (m *machine) unitGone(e UnitGone) {
	switch {
	case e.Code == CodeUnitStopped && m.in(messages.LeaseRedeeming, messages.LeaseRunning):
		m.outcome(messages.LeaseEnded, e.Code, e.Reason)
		m.to(messages.LeaseQuiescing, e.Code, Revoke, Gate)
	case m.in(messages.LeaseRedeeming):
		code, reason := e.Code, e.Reason
		if code == "" {
			code, reason = CodeNeverProven, "The agent ended before its wrapper had proven the credential."
		}
		m.outcome(messages.LeaseFailed, code, reason)
		m.to(messages.LeaseQuiescing, code, Revoke, Gate)
	case m.in(messages.LeaseRunning):
		outcome := messages.LeaseEnded
		if e.Code != "" {
			outcome = messages.LeaseFailed
		}
		m.outcome(outcome, e.Code, e.Reason)
		m.to(messages.LeaseQuiescing, e.Code, Revoke, Gate)
	case m.in(messages.LeaseStopping):
		m.to(messages.LeaseQuiescing, "", Gate)
	}
}

func (m *machine) compared(ev messages.Evidence) {
	if m.l.Evidence != nil && ev.Before == nil {
		ev.Before = m.l.Evidence.Before
	}
	m.l.Evidence, m.l.Updated, m.changed = &ev, m.now, true
	switch {
	case ev.Credential == messages.CredentialUndecided:
		// The overlay has the only copy of what may be the owner's newest login.
		m.l.Outcome, m.l.Code = messages.LeaseFailed, CodeHarnessUnknown
		m.l.Reason = "The harness " + m.l.Plan.Harness + " is not configured any more, so its credential could not be given back. The launch's folder is kept."
		m.to(messages.LeaseFailed, CodeHarnessUnknown)
		return
	case !ev.Untouched:
		// The overlay stays: it is what the owner needs to see what happened.
		m.l.Outcome, m.l.Code = messages.LeaseFailed, CodeEvidenceChanged
		m.l.Reason = "Changed during the launch: " + strings.Join(ev.Changed, ", ")
	}
	m.actions = append(m.actions, Evidencing(m.l))
}

// recovered decides what becomes of a launch whose actor, or whose daemon, was
// lost. It can't go on: its secrets died with it.
func (m *machine) recovered(e Recovered) {
	switch m.l.State {
	case messages.LeaseProposed, messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying:
		m.finish(messages.LeaseRefused, e.Code, e.Reason, Withdraw)
	case messages.LeaseStarting, messages.LeaseRedeeming, messages.LeaseRunning, messages.LeaseStopping:
		m.outcome(messages.LeaseFailed, e.Code, e.Reason)
		m.to(messages.LeaseStopping, e.Code, Revoke, StopUnit)
	case messages.LeaseQuiescing, messages.LeaseUnquiet:
		m.to(messages.LeaseQuiescing, e.Code, Revoke, Gate)
	case messages.LeaseEvidencing:
		m.to(messages.LeaseEvidencing, e.Code, Revoke, Evidencing(m.l))
	}
}
