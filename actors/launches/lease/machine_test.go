package lease

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/messages"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fresh() messages.Lease {
	p := messages.Plan{Launch: "lp-1", Lease: "ls-1", LeaseSeconds: 60}
	return messages.Lease{ID: "ls-1", Launch: "lp-1", State: messages.LeaseProposed, Plan: p, PlanDigest: Digest(p)}
}

func approve(l messages.Lease) Verdict {
	return Verdict{Outcome: messages.OutcomeApproved, Digest: l.PlanDigest}
}

// run applies events in order and returns the lease and all actions.
func run(l messages.Lease, evs ...Event) (messages.Lease, []Action) {
	var all []Action
	for _, ev := range evs {
		var as []Action
		l, as, _ = Step(l, ev, start)
		all = append(all, as...)
	}
	return l, all
}

func TestLease_TheWholeWay(t *testing.T) {
	l, actions := run(fresh(), Submitted{}, approve(fresh()), Matched{}, Verified{}, Started{}, Redeemed{"conn-1"}, Proven{},
		UnitGone{}, Quiet{}, Compared{messages.Evidence{Untouched: true}}, Removed{})
	want := []Action{AskOwner, Match, Verify, Start, WatchUnit, Revoke, Gate, Compare, Remove}
	if !slices.Equal(actions, want) {
		t.Errorf("actions %v, want %v", actions, want)
	}
	var states []messages.LeaseState
	for _, s := range l.History {
		states = append(states, s.State)
	}
	wantStates := []messages.LeaseState{"pending_trusted_presence", "approved", "verifying", "starting", "redeeming", "running", "quiescing", "evidencing", "ended"}
	if !slices.Equal(states, wantStates) {
		t.Errorf("states %v, want %v", states, wantStates)
	}
}

func upTo(n int) []Event {
	return []Event{Submitted{}, approve(fresh()), Matched{}, Verified{}, Started{}, Proven{}}[:n]
}

func TestLease_Endings(t *testing.T) {
	ending := []Event{UnitGone{}, Quiet{}, Compared{messages.Evidence{Untouched: true}}, Removed{}}
	for _, tc := range []struct {
		name  string
		evs   []Event
		state messages.LeaseState
		code  string
	}{
		{"denied", append(upTo(1), Verdict{Outcome: messages.OutcomeDenied}), messages.LeaseDenied, CodeDenied},
		{"nobody answers", append(upTo(1), Verdict{Outcome: messages.OutcomeTimedOut}), messages.LeaseExpired, CodeTimedOut},
		{"approval of another plan", append(upTo(1), Verdict{Outcome: messages.OutcomeApproved, Digest: "other"}), messages.LeaseRefused, CodePlanDigest},
		{"drifted plan", append(upTo(2), Refused{Code: "plan_field_mismatch"}), messages.LeaseRefused, "plan_field_mismatch"},
		{"changed harness", append(upTo(3), Refused{Code: "managed_harness_identity_changed"}), messages.LeaseRefused, "managed_harness_identity_changed"},
		{"unit does not start", append(append(upTo(4), Refused{Code: "unit_not_started"}), ending...), messages.LeaseRefused, "unit_not_started"},
		{"relay lost", append(append(upTo(6), Failed{Code: "envelope_relay_lost"}), ending...), messages.LeaseFailed, "envelope_relay_lost"},
		{"stopped by the owner", append(append(upTo(6), StopAsked{Code: "stopped_by_owner"}), ending...), messages.LeaseEnded, "stopped_by_owner"},
		{"ends before the proof", append(upTo(5), ending...), messages.LeaseFailed, CodeNeverProven},
		{"host refuses", append(append(upTo(5), UnitGone{Code: "managed_harness_identity_changed"}), ending[1:]...), messages.LeaseFailed, "managed_harness_identity_changed"},
		{"config home touched", append(upTo(6), UnitGone{}, Quiet{}, Compared{messages.Evidence{Changed: []string{"/h/.gitconfig"}}}, Removed{}), messages.LeaseFailed, CodeEvidenceChanged},
		{"harness not configured any more", append(upTo(6), UnitGone{}, Quiet{}, Compared{messages.Evidence{Untouched: true, Credential: messages.CredentialUndecided}}), messages.LeaseFailed, CodeHarnessUnknown},
		{"survivors that die later", append(upTo(6), UnitGone{}, Unquiet{"pid 7"}, Quiet{}, Compared{messages.Evidence{Untouched: true}}, Removed{}), messages.LeaseEnded, ""},
		{"daemon restarted while asking", append(upTo(1), Recovered{Code: CodeDaemonRestarted}), messages.LeaseRefused, CodeDaemonRestarted},
		{"daemon restarted while running", append(append(upTo(6), Recovered{Code: CodeDaemonRestarted}), ending...), messages.LeaseFailed, CodeDaemonRestarted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _ := run(fresh(), tc.evs...)
			if l.State != tc.state || l.Code != tc.code {
				t.Errorf("%s (%s), want %s (%s)", l.State, l.Code, tc.state, tc.code)
			}
		})
	}
}

// The earlier life may have been cut off before the bearer was revoked.
func TestLease_RecoveredRevokesWhereverABearerCanBe(t *testing.T) {
	for _, evs := range [][]Event{upTo(4), upTo(5), upTo(6), append(upTo(6), StopAsked{}), append(upTo(6), UnitGone{}),
		append(upTo(6), UnitGone{}, Unquiet{"pid 7"}), append(upTo(6), UnitGone{}, Quiet{})} {
		l, _ := run(fresh(), evs...)
		if _, actions, _ := Step(l, Recovered{Code: CodeDaemonRestarted}, start); !slices.Contains(actions, Revoke) {
			t.Errorf("%s: %v", l.State, actions)
		}
	}
}

// Until what must go is gone, the comparison is not made again: it would find
// no credential any more.
func TestLease_WhatWasComparedOnceStands(t *testing.T) {
	for want, ev := range map[Action]messages.Evidence{
		Remove: {Untouched: true, Credential: messages.CredentialWrittenBack},
		Strip:  {Changed: []string{"/h/.gitconfig"}, Credential: messages.CredentialWrittenBack},
	} {
		l, _ := run(fresh(), append(upTo(6), UnitGone{}, Quiet{}, Compared{ev})...)
		l, actions := run(l, Recovered{Code: CodeDaemonRestarted})
		if !slices.Contains(actions, want) || slices.Contains(actions, Compare) {
			t.Errorf("after a restart %v, want %s", actions, want)
		}
		l, _ = run(l, Compared{messages.Evidence{Untouched: true, Credential: messages.CredentialBlank}}, Removed{})
		if !Final(l.State) || l.Evidence.Credential != messages.CredentialWrittenBack {
			t.Errorf("%s: %+v", l.State, l.Evidence)
		}
	}
}

func anyEvent() *rapid.Generator[Event] {
	return rapid.SampledFrom([]Event{Submitted{}, approve(fresh()), Verdict{Outcome: messages.OutcomeDenied}, Verdict{Outcome: messages.OutcomeTimedOut},
		Matched{}, Verified{}, Started{}, Redeemed{"conn-1"}, Proven{}, Refused{Code: "r"}, Failed{Code: "f"}, StopAsked{Code: "s"},
		UnitGone{}, UnitGone{Code: "u"}, Quiet{}, Unquiet{"p"}, Compared{messages.Evidence{Untouched: true}}, Compared{messages.Evidence{}}, Compared{messages.Evidence{Credential: messages.CredentialUndecided}}, Removed{}, Recovered{Code: CodeDaemonRestarted}})
}

func TestLease_HoldsInEveryOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := fresh()
		starts, quiet, touched := 0, false, false
		for _, ev := range rapid.SliceOfN(anyEvent(), 0, 60).Draw(t, "events") {
			before := l
			next, actions, changed := Step(l, ev, start)
			if Final(before.State) && (changed || len(actions) > 0) {
				t.Fatalf("%s is final, %s changed it", before.State, ev.Name())
			}
			if !changed && len(actions) > 0 {
				t.Fatalf("%s in %s: actions %v without a stored change", ev.Name(), before.State, actions)
			}
			if _, ok := ev.(Quiet); ok && changed {
				quiet = true
			}
			for _, a := range actions {
				switch a {
				case Start:
					starts++
					touched = true
				case Remove, Strip:
					if touched && !quiet {
						t.Fatalf("removed before it was proven quiet, by %s in %s", ev.Name(), before.State)
					}
				case Gate:
					quiet = false // a later life of the unit must be proven again
				}
			}
			if len(next.History) < len(before.History) {
				t.Fatal("history shrank")
			}
			l = next
		}
		if starts > 1 {
			t.Fatalf("started %d times", starts)
		}
		if Final(l.State) && l.Outcome == "" {
			t.Fatalf("%s without an outcome", l.State)
		}
	})
}

func TestLease_AlwaysReachesAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, _ := run(fresh(), rapid.SliceOfN(anyEvent(), 0, 40).Draw(t, "events")...)
		l, _ = run(l, Recovered{Code: CodeDaemonRestarted}, UnitGone{}, Quiet{}, Compared{messages.Evidence{Untouched: true}}, Removed{})
		if !Final(l.State) {
			t.Fatalf("stuck in %s", l.State)
		}
	})
}
