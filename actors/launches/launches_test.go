package launches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

func TestLaunch_TheWholeWay(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, _ := w.running(t, s)
		w.ended[l.Launch] <- messages.HostReport{Stage: messages.StageExited}
		l = until(t, s, l.Launch, messages.LeaseEnded)
		want := []string{"rechecked", "started", "released", "quiet", "compared", "removed"}
		if got := w.happened(); !slices.Equal(got, want) {
			t.Errorf("happened %v, want %v", got, want)
		}
		if w.revoked == 0 {
			t.Error("the connection was not revoked")
		}
		if l.Connection == "" || l.Outcome != messages.LeaseEnded {
			t.Errorf("lease %+v", l)
		}
	})
}

func TestLaunch_RefusesADriftedPlan(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.drift = func(p *messages.Plan) { p.Wrapper.SHA256 = "other" }
		l := w.approved(t, s)
		l = until(t, s, l.Launch, messages.LeaseRefused)
		synctest.Wait() // what was hashed ahead is let go beside
		if l.Code != "plan_field_mismatch" || !slices.Equal(w.happened(), []string{"released"}) {
			t.Errorf("%s: %s; happened %v", l.Code, l.Reason, w.happened())
		}
	})
}

func TestLaunch_AttachTokenIsGivenOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, _ := w.running(t, s)
		var mu sync.Mutex
		given := 0
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_, token, err := s.Attach(t.Context(), l.Launch)
				if err != nil {
					wantCode(t, err, "token_consumed")
					return
				}
				mu.Lock()
				defer mu.Unlock()
				given++
				if sum, _ := token.SHA256(); fmt.Sprintf("%x", sum) != w.sums[l.Launch] {
					t.Error("the token is not the one of the manifest")
				}
				token.Zero()
			})
		}
		wg.Wait()
		if given != 1 {
			t.Errorf("given %d times", given)
		}
	})
}

// Whoever gave up waiting either has the token or has left it to the next.
func TestLaunch_AttachTokenIsNotLostWithItsAsker(t *testing.T) {
	for range 20 {
		in(t, func(t *testing.T, w *world) {
			s, stop := w.daemon(t)
			defer stop()
			l, _ := w.running(t, s)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_, token, err := s.Attach(gone, l.Launch)
			if err != nil {
				synctest.Wait()
				if _, token, err = s.Attach(t.Context(), l.Launch); err != nil {
					t.Fatal(err)
				}
			}
			token.Zero()
		})
	}
}

func TestLaunch_SecondRedemptionEndsIt(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, relay := w.running(t, s)
		_, err := s.Redeem(t.Context(), l.Launch, l.ID, "wrapper", relay.handle(t))
		wantCode(t, err, "handle_already_redeemed")
		l = until(t, s, l.Launch, messages.LeaseFailed)
		if l.Code != "handle_already_redeemed" {
			t.Errorf("code %s", l.Code)
		}
	})
}

func TestLaunch_RedemptionIsBound(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, relay := w.running(t, s)
		_, err := s.Redeem(t.Context(), l.Launch, "ls-other", "wrapper", relay.handle(t))
		wantCode(t, err, "redemption_lease_mismatch")
		_, err = s.Redeem(t.Context(), l.Launch, l.ID, "a thief", relay.handle(t))
		wantCode(t, err, "redemption_wrapper_mismatch")
		_, err = s.Receipt(t.Context(), messages.Authority{Connection: "conn-other", Launch: l.Launch, Lease: l.ID}, "n")
		wantCode(t, err, "receipt_lease_mismatch")
		if now, err := s.Get(t.Context(), l.Launch); err != nil || now.State != messages.LeaseRunning {
			t.Errorf("%s, %v: refusals must not end the launch", now.State, err)
		}
	})
}

func TestLaunch_RelayLostFailsClosed(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, relay := w.running(t, s)
		if err := relay.ref.Send(die{}); err != nil {
			t.Fatal(err)
		}
		l = until(t, s, l.Launch, messages.LeaseFailed)
		if l.Code != "envelope_relay_lost" || len(w.relays) != 0 {
			t.Errorf("code %s, %d more relays", l.Code, len(w.relays))
		}
	})
}

func TestLaunch_UnprovenCredentialEndsIt(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l := w.approved(t, s)
		if l = until(t, s, l.Launch, messages.LeaseFailed); l.Code != lease.CodeNeverProven {
			t.Errorf("code %s", l.Code)
		}
	})
}

func TestLaunch_LeaseExpiryStopsTheUnit(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, _ := w.running(t, s)
		begun := time.Now()
		l = until(t, s, l.Launch, messages.LeaseEnded)
		if l.Code != "lease_expired" || time.Since(begun) < 59*time.Minute {
			t.Errorf("code %s after %v", l.Code, time.Since(begun))
		}
	})
}

// While the machine sleeps timers stand still and the wall's clock goes on.
func TestLaunch_LeaseExpiresAcrossASuspend(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var slept atomic.Int64
		s, stop := w.daemonWith(t, w, Options{Clock: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }})
		defer stop()
		l, _ := w.running(t, s)
		slept.Store(int64(2 * time.Hour))
		woken := time.Now()
		l = until(t, s, l.Launch, messages.LeaseEnded)
		if l.Code != "lease_expired" || time.Since(woken) > 2*clockLook {
			t.Errorf("code %s, %v after waking up", l.Code, time.Since(woken))
		}
	})
}

// A clock that is set back gives no time.
func TestLaunch_LeaseExpiresThoughTheClockIsSetBack(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var back atomic.Int64
		s, stop := w.daemonWith(t, w, Options{Clock: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }})
		defer stop()
		l, _ := w.running(t, s)
		back.Store(int64(24 * time.Hour))
		begun := time.Now()
		l = until(t, s, l.Launch, messages.LeaseEnded)
		if l.Code != "lease_expired" || time.Since(begun) > 61*time.Minute {
			t.Errorf("code %s after %v", l.Code, time.Since(begun))
		}
	})
}

// Without memory for its secrets a launch is refused, and none of them is left
// (in looks at that).
func TestLaunch_NoMemoryForASecretRefusesIt(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemonWith(t, w, Options{Random: iotest.ErrReader(errors.New("no more locked memory"))})
		defer stop()
		l := w.approved(t, s)
		if l = until(t, s, l.Launch, messages.LeaseRefused); l.Code != "no_locked_memory" || slices.Contains(w.happened(), "started") {
			t.Errorf("code %s, happened %v", l.Code, w.happened())
		}
	})
}

// A launch whose actors can't start, because the daemon is stopping, is not left
// as proposed.
func TestLaunch_ProposedIntoAStoppingDaemonIsRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		stopped := sync.OnceFunc(stop)
		w.onPut = stopped
		if _, err := s.Propose(t.Context(), Order{}); problem.CodeOf(err) != "launch_not_started" {
			t.Errorf("%v", err)
		}
		for _, l := range w.leases {
			if l.State != messages.LeaseRefused || l.Code != "launch_not_started" {
				t.Errorf("%s (%s)", l.State, l.Code)
			}
		}
		if len(w.leases) != 1 {
			t.Errorf("leases %v", w.leases)
		}
	})
}

func TestLaunch_SurvivorsKeepTheOverlayUntilTheyDie(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, relay := w.running(t, s)
		w.alive[l.Launch] = true
		if _, err := s.Stop(t.Context(), l.Launch); err != nil {
			t.Fatal(err)
		}
		l = until(t, s, l.Launch, messages.LeaseUnquiet)
		if err := relay.ref.Send(die{}); !errors.Is(err, supervise.ErrDown) {
			t.Errorf("the credential's relay outlives the revocation: %v", err)
		}
		if why := l.History[len(l.History)-1].Why; why != "pid 7 (sleep)" {
			t.Errorf("the owner is told %q", why)
		}
		if _, err := s.Stop(t.Context(), l.Launch); err != nil {
			t.Errorf("a second stop: %v", err)
		}
		if slices.Contains(w.happened(), "removed") {
			t.Error("removed under a live process")
		}
		w.mu.Lock()
		w.alive[l.Launch] = false
		w.mu.Unlock()
		until(t, s, l.Launch, messages.LeaseEnded)
	})
}

func TestLaunch_TouchedConfigKeepsTheOverlayAndNamesTheFile(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.touched = []string{"/home/o/.gitconfig"}
		l, _ := w.running(t, s)
		w.ended[l.Launch] <- messages.HostReport{Stage: messages.StageExited}
		l = until(t, s, l.Launch, messages.LeaseFailed)
		if l.Code != lease.CodeEvidenceChanged || !slices.Contains(l.Evidence.Changed, "/home/o/.gitconfig") || slices.Contains(w.happened(), "removed") {
			t.Errorf("%s %+v, happened %v", l.Code, l.Evidence, w.happened())
		}
		if got := w.happened(); got[len(got)-1] != "stripped" {
			t.Errorf("the kept folder has the credential still: %v", got)
		}
		if again, stopAgain := w.daemon(t); again != nil { // the next daemon keeps it too
			defer stopAgain()
			if synctest.Wait(); !w.folders[l.Launch] {
				t.Error("the next daemon removed it")
			}
		}
	})
}

// Without knowing what the owner's configuration looked like nothing is started.
func TestLaunch_NoEvidenceNoStart(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.noEvidence = problem.New("evidence_too_large", "~/.codex has too much in it")
		l := w.approved(t, s)
		l = until(t, s, l.Launch, messages.LeaseRefused)
		synctest.Wait()
		if got := w.happened(); l.Code != "evidence_too_large" || !slices.Equal(got, []string{"rechecked", "released"}) {
			t.Errorf("%s, happened %v", l.Code, got)
		}
	})
}

func TestLaunch_StartThatFailsLeavesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		w.noStart = problem.Wrap(errNoBus, "unit_not_started", "systemd did not start the unit")
		l := w.approved(t, s)
		if l = until(t, s, l.Launch, messages.LeaseRefused); l.Code != "unit_not_started" {
			t.Errorf("code %s", l.Code)
		}
		if got := w.happened(); got[len(got)-1] != "removed" {
			t.Errorf("happened %v", got)
		}
	})
}

func TestLaunches_ClosedTheyTakeNoNewOneAndKeepWhatSurvives(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, _ := w.running(t, s)
		w.mu.Lock()
		w.alive[l.Launch] = true
		w.mu.Unlock()
		begun := time.Now()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > s.o.QuietBound+time.Second { // virtual: it does not wait for what may live for ever
			t.Errorf("it took %v", took)
		}
		until(t, s, l.Launch, messages.LeaseUnquiet)
		_, err := s.Propose(t.Context(), Order{})
		wantCode(t, err, "launches_stopping")
		w.mu.Lock()
		w.alive[l.Launch] = false
		w.mu.Unlock()
		if l := until(t, s, l.Launch, messages.LeaseEnded); l.Code != "daemon_stopped" {
			t.Errorf("%s: %s", l.Code, l.Reason)
		}
	})
}

func TestLaunch_AStopWaitsForTheStartThatItOvertakes(t *testing.T) {
	for name, refusal := range map[string]error{"started": nil, "refused": errNoBus} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.starting, w.noStart = make(chan struct{}), refusal
				s, stop := w.daemon(t)
				defer stop()
				l := w.approved(t, s)
				until(t, s, l.Launch, messages.LeaseStarting)
				synctest.Wait()
				if _, err := s.Stop(t.Context(), l.Launch); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute) // virtual
				if l := until(t, s, l.Launch, messages.LeaseStopping); slices.Contains(w.happened(), "stopped") {
					t.Errorf("%s: the unit was stopped before it was there: %v", l.State, w.happened())
				}
				close(w.starting)
				until(t, s, l.Launch, messages.LeaseEnded)
				nothingLeft(t, w, l.Launch)
			})
		})
	}
}

// An owner may read for longer than a client waits at a time.
func TestLaunch_AWaitThatIsOverSaysHowItStands(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, err := s.Propose(t.Context(), Order{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if now, err := s.Wait(ctx, l.Launch, messages.LeasePending); err != nil || now.State != messages.LeasePending {
			t.Errorf("%s, %v", now.State, err)
		}
	})
}

func TestLaunch_WithdrawnWhileWaiting(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s, stop := w.daemon(t)
		defer stop()
		l, err := s.Propose(t.Context(), Order{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stop(t.Context(), l.Launch); err != nil {
			t.Fatal(err)
		}
		if l = until(t, s, l.Launch, messages.LeaseRefused); l.Code != lease.CodeWithdrawn {
			t.Errorf("code %s", l.Code)
		}
	})
}

// Every state in which a daemon can be killed, and where the next one takes it.
func TestLaunch_RecoversFromEveryState(t *testing.T) {
	for _, state := range []messages.LeaseState{
		messages.LeaseProposed, messages.LeasePending, messages.LeaseApproved, messages.LeaseVerifying, messages.LeaseStarting,
		messages.LeaseRedeeming, messages.LeaseRunning, messages.LeaseStopping, messages.LeaseQuiescing, messages.LeaseUnquiet, messages.LeaseEvidencing,
	} {
		t.Run(string(state), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.leases["lp-1"] = messages.Lease{ID: "ls-1", Launch: "lp-1", State: state, Outcome: map[bool]messages.LeaseState{true: messages.LeaseEnded}[state == messages.LeaseQuiescing || state == messages.LeaseUnquiet || state == messages.LeaseEvidencing]}
				w.folders["lp-1"], w.folders["lp-unknown"] = true, true
				w.active["lp-1"] = true // BindsTo may still be at work
				if state == messages.LeaseQuiescing || state == messages.LeaseUnquiet || state == messages.LeaseEvidencing {
					w.active["lp-1"] = false
				}
				begunNothing := state == messages.LeaseProposed || state == messages.LeasePending || state == messages.LeaseApproved || state == messages.LeaseVerifying
				if begunNothing {
					w.active["lp-1"] = false
					delete(w.folders, "lp-1")
				}
				s, stop := w.daemon(t)
				defer stop()
				for {
					l, err := s.Get(t.Context(), "lp-1")
					if err != nil {
						t.Fatal(err)
					}
					if lease.Final(l.State) {
						break
					}
					if _, err := s.Wait(t.Context(), "lp-1", l.State); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if w.active["lp-1"] || len(w.folders) > 0 {
					t.Errorf("left: unit %v, folders %v", w.active["lp-1"], w.folders)
				}
				if !slices.Equal(w.takenUp, []string{"lp-1"}) {
					t.Errorf("taken up: %v", w.takenUp)
				}
				if slices.Contains(w.happened(), "REMOVED UNDER A LIVE PROCESS") {
					t.Error("removed under a live process")
				}
			})
		})
	}
}

// One bad folder, or one loan that can't be told, is not the end of all launches.
func TestLaunches_WhatCannotBeTakenUpKeepsNothingElseFromRunning(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.folders["lost+found"], w.folders["lp-unknown"] = true, true
		w.stuck = map[string]error{"lost+found": errNoBus}
		w.leases["lp-1"] = messages.Lease{ID: "ls-1", Launch: "lp-1", State: messages.LeaseRunning}
		w.noTakeUp = errNoBus
		s, stop := w.daemon(t)
		defer stop()
		until(t, s, "lp-1", messages.LeaseFailed)
		if synctest.Wait(); w.folders["lp-unknown"] || !w.folders["lost+found"] {
			t.Errorf("folders left: %v", w.folders)
		}
		if _, err := s.Propose(t.Context(), Order{}); err != nil {
			t.Error(err)
		}
	})
}
