package launches

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sophia/messages"
)

// ranAndEnded is a launch that ran and has ended.
func (w *world) ranAndEnded(t *testing.T, s *Service) messages.Lease {
	t.Helper()
	l, _ := w.running(t, s)
	w.ended[l.Launch] <- messages.HostReport{Stage: messages.StageExited}
	l = until(t, s, l.Launch, messages.LeaseEnded)
	synctest.Wait() // its actors are gone
	return l
}

func TestResume_IsALaunchWithTheOldPlansWords(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		old := w.ranAndEnded(t, s)
		w.mu.Lock()
		l := w.leases[old.Launch]
		l.Plan.Workspace, l.Plan.Harness, l.Plan.Seat, l.Plan.Permission = "ws-1", "codex", "Reviewer_1", messages.Observer
		l.Plan.Scope, l.Plan.Arguments, l.Plan.Isolated, l.Plan.LeaseSeconds = []string{"acme"}, []string{"go on"}, true, 60
		w.leases[old.Launch] = l
		w.mu.Unlock()

		next, err := s.Propose(t.Context(), Order{Resumes: old.Launch, Workspace: "ws-1", Permission: messages.Full})
		if err != nil || next.State != messages.LeasePending || next.Launch == old.Launch {
			t.Fatalf("%s %s, %v", next.Launch, next.State, err)
		}
		o := w.ordered
		if o.Resumes != old.ID || o.Harness != "codex" || o.Seat != "Reviewer_1" || o.Permission != messages.Full || !o.Isolated || o.LeaseSeconds != 60 ||
			!slices.Equal(o.Scope, []string{"acme"}) || !slices.Equal(o.Arguments, []string{"go on"}) {
			t.Errorf("ordered %+v", o)
		}
		if next.Plan.Resumes != old.ID || !slices.Contains(w.whys, "launch proposed, resumes "+old.ID) {
			t.Errorf("plan %+v, journal %q", next.Plan, w.whys)
		}
		if !slices.ContainsFunc(details(next.Plan), func(d [2]string) bool { return d == [2]string{"resumes", old.ID} }) {
			t.Errorf("the owner is shown %v", details(next.Plan))
		}
		// The same checks: what drifted is refused, and nothing starts.
		w.mu.Lock()
		w.log, w.drift = nil, func(p *messages.Plan) { p.Resumes = "ls-other" }
		w.mu.Unlock()
		w.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeApproved}
		next = until(t, s, next.Launch, messages.LeaseRefused)
		synctest.Wait()
		if !strings.Contains(next.Reason, "resumes") || slices.Contains(w.happened(), "started") {
			t.Errorf("%s: %s; happened %v", next.Code, next.Reason, w.happened())
		}
	})
}

func TestResume_RefusesWhatHasNotEndedOrNeverRan(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		running, _ := w.running(t, s)
		_, err := s.Propose(t.Context(), Order{Resumes: running.Launch})
		wantCode(t, err, "launch_not_ended")
		denied, err := s.Propose(t.Context(), Order{})
		if err != nil {
			t.Fatal(err)
		}
		w.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeDenied}
		until(t, s, denied.Launch, messages.LeaseDenied)
		_, err = s.Propose(t.Context(), Order{Resumes: denied.Launch})
		wantCode(t, err, "launch_never_ran")
		_, err = s.Propose(t.Context(), Order{Resumes: "lp-nothing"})
		wantCode(t, err, "launch_not_found")
		w.ended[running.Launch] <- messages.HostReport{Stage: messages.StageExited}
		until(t, s, running.Launch, messages.LeaseEnded)
		_, err = s.Propose(t.Context(), Order{Resumes: running.Launch, Workspace: "ws-elsewhere"})
		wantCode(t, err, "resume_workspace_mismatch")
	})
}
