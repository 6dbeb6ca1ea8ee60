package launches

import (
	"slices"
	"testing"
	"testing/synctest"

	"sophia/messages"
)

func TestLaunch_WhatIsHashedWhileTheOwnerReadsIsLetGoWhenDenied(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, err := s.Propose(t.Context(), Order{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.verdict <- messages.ApprovalVerdict{Outcome: messages.OutcomeDenied}
		until(t, s, l.Launch, messages.LeaseDenied)
		synctest.Wait()
		if got := w.happened(); !slices.Equal(got, []string{"released"}) {
			t.Errorf("happened %v", got)
		}
	})
}

// An owner who is quicker than the hashing waits for it, and nothing starts
// without.
func TestLaunch_AnApprovalIsNoReasonToHashLess(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.hashing = make(chan struct{})
		l := w.approved(t, s)
		until(t, s, l.Launch, messages.LeaseVerifying)
		synctest.Wait()
		if got := w.happened(); len(got) > 0 {
			t.Errorf("happened %v before the hash was known", got)
		}
		close(w.hashing)
		until(t, s, l.Launch, messages.LeaseRedeeming)
		if got := w.happened(); !slices.Equal(got, []string{"rechecked", "started", "released"}) {
			t.Errorf("happened %v", got)
		}
	})
}

func TestLaunch_WhatCouldNotBeHashedAheadIsHashedAfterTheApproval(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.noPrepare = errNoBus
		l := w.approved(t, s)
		until(t, s, l.Launch, messages.LeaseRedeeming)
		if got := w.happened(); !slices.Equal(got, []string{"hashed", "started", "released"}) {
			t.Errorf("happened %v", got)
		}
	})
}

func TestLaunch_StoppedWhileItIsHashedHoldsNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.hashing = make(chan struct{})
		l := w.approved(t, s)
		until(t, s, l.Launch, messages.LeaseVerifying)
		if _, err := s.Stop(t.Context(), l.Launch); err != nil {
			t.Fatal(err)
		}
		until(t, s, l.Launch, messages.LeaseRefused)
		synctest.Wait()
		close(w.hashing)
		synctest.Wait()
		if got := w.happened(); !slices.Equal(got, []string{"released"}) {
			t.Errorf("happened %v", got)
		}
	})
}
