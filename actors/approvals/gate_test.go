package approvals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"pgregory.net/rapid"

	"sophia/actors/approvals"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// disk is a store that can fail and be slow.
type disk struct {
	mu   sync.Mutex
	rows map[string]messages.ApprovalRow
	fail func(row messages.ApprovalRow) error
	wait func(row messages.ApprovalRow) time.Duration
}

func (d *disk) Put(ctx context.Context, row messages.ApprovalRow) error {
	if d.wait != nil {
		select {
		case <-time.After(d.wait(row)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.fail != nil {
		if err := d.fail(row); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows[row.ID] = row
	return nil
}

func (d *disk) Open(context.Context) ([]messages.ApprovalRow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []messages.ApprovalRow
	for _, row := range d.rows {
		if row.Verdict == nil {
			open = append(open, row)
		}
	}
	return open, nil
}

func (d *disk) row(id string) messages.ApprovalRow {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[id]
}

// world is a gate with what surrounds it, in virtual time.
type world struct {
	*approvals.Gate
	disk   *disk
	tree   *supervise.Tree
	mu     sync.Mutex
	events []messages.TrayEvent
	asked  chan messages.ApprovalRequest
}

func newWorld(t *testing.T, d *disk, change ...func(*supervise.Policy, *approvals.Config)) *world {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{disk: d, asked: make(chan messages.ApprovalRequest, 64)}
	if d.rows == nil {
		d.rows = map[string]messages.ApprovalRow{}
	}
	policy := approvals.Policy()
	config := approvals.Config{Store: d, Notify: w.notify}
	for _, c := range change {
		c(&policy, &config)
	}
	if w.tree, err = supervise.Start(e, "approvals", policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := w.tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("did not stop: %v %v", left, err)
		}
	})
	if w.Gate, err = approvals.New(context.Background(), func() *supervise.Tree { return w.tree }, config); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) notify(e messages.TrayEvent) {
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
	if e.Kind == messages.TrayAsked {
		w.asked <- *e.Request
	}
}

// told is what the trays were told, as "asked ap-…", in order.
func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		switch e.Kind {
		case messages.TrayAsked:
			out = append(out, "asked "+e.Request.ID)
		case messages.TrayAnswered:
			out = append(out, e.Verdict.Outcome+" "+e.Verdict.ID)
		}
	}
	return out
}

type answer struct {
	messages.ApprovalVerdict
	err error
}

func (w *world) request(ctx context.Context) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		v, err := w.Request(ctx, call())
		out <- answer{v, err}
	}()
	return out
}

func call() messages.ApprovalRequest {
	return messages.ApprovalRequest{
		Kind: messages.ApproveToolCall, Connection: "conn-1", Requester: "Claude", Title: "Remember a fact",
		Tool: "sophia.remember_fact", Arguments: json.RawMessage(`{"entity":"acme"}`),
	}
}

func TestApproval_ApprovedOnceAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{})
		got := w.request(t.Context())
		r := <-w.asked
		if open, _ := w.List(t.Context()); len(open) != 1 || open[0].ID != r.ID {
			t.Fatalf("waiting: %+v", open)
		}
		if row := w.disk.row(r.ID); row.ID != r.ID || row.Verdict != nil {
			t.Errorf("the question is not on disk: %+v", row)
		}
		if len(r.Code) != 5 || !strings.HasPrefix(r.ID, "ap-") || r.Expires.Sub(r.Requested) != approvals.DefaultTimeout {
			t.Errorf("request: %+v", r)
		}
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray A", ""); err != nil {
			t.Fatal(err)
		}
		v := <-got
		if v.err != nil || v.Outcome != messages.OutcomeApproved || v.By != "tray A" || v.Digest != r.Digest {
			t.Fatalf("%+v", v)
		}
		if row := w.disk.row(r.ID); row.Verdict == nil || *row.Verdict != v.ApprovalVerdict {
			t.Errorf("on disk: %+v", row.Verdict)
		}
		err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeDenied, "tray B", "")
		if problem.CodeOf(err) != "approval_already_decided" || !strings.Contains(err.Error(), "tray A") {
			t.Errorf("the second answer: %v", err)
		}
		if open, _ := w.List(t.Context()); len(open) != 0 {
			t.Errorf("still waiting: %+v", open)
		}
		if want := []string{"asked " + r.ID, "approved " + r.ID}; !slices.Equal(w.told(), want) {
			t.Errorf("told %v, want %v", w.told(), want)
		}
	})
}

func TestApproval_DeniedWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{})
		got := w.request(t.Context())
		r := <-w.asked
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeDenied, "tray", "not today"); err != nil {
			t.Fatal(err)
		}
		v := <-got
		refusal := approvals.Refusal(v.ApprovalVerdict)
		if v.Outcome != messages.OutcomeDenied || problem.CodeOf(refusal) != "approval_denied" || !strings.Contains(refusal.Error(), "not today") {
			t.Errorf("%+v: %v", v, refusal)
		}
	})
}

func TestApproval_TimesOutToARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{})
		begin := time.Now()
		got := w.request(t.Context())
		r := <-w.asked
		v := <-got
		if v.Outcome != messages.OutcomeTimedOut || time.Since(begin) != approvals.DefaultTimeout {
			t.Errorf("%+v after %v", v, time.Since(begin))
		}
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_already_decided" {
			t.Errorf("a late answer: %v", err)
		}
		if row := w.disk.row(r.ID); row.Verdict == nil || row.Verdict.Outcome != messages.OutcomeTimedOut {
			t.Errorf("on disk: %+v", row.Verdict)
		}
	})
}

func TestApproval_WithdrawnWhenTheCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{})
		ctx, cancel := context.WithCancel(t.Context())
		got := w.request(ctx)
		r := <-w.asked
		cancel()
		if v := <-got; v.Outcome != messages.OutcomeWithdrawn {
			t.Errorf("%+v", v)
		}
		synctest.Wait()
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_already_decided" {
			t.Errorf("an answer to nobody: %v", err)
		}
		if row := w.disk.row(r.ID); row.Verdict == nil || row.Verdict.Outcome != messages.OutcomeWithdrawn {
			t.Errorf("on disk: %+v", row.Verdict)
		}
	})
}

func TestApproval_IsBoundToWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{})
		got := w.request(t.Context())
		r := <-w.asked
		if err := w.Decide(t.Context(), r.ID, strings.Repeat("0", 64), messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_digest_mismatch" {
			t.Errorf("an answer to something else: %v", err)
		}
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeTimedOut, "tray", ""); problem.CodeOf(err) != "invalid_outcome" {
			t.Errorf("no answer at all: %v", err)
		}
		for _, id := range []string{"ap-0000000000", "", "x", r.ID + "/x"} {
			if err := w.Decide(t.Context(), id, r.Digest, messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_not_found" {
				t.Errorf("%q: %v", id, err)
			}
		}
		// None of these used the request up.
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray", ""); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v.Outcome != messages.OutcomeApproved {
			t.Errorf("%+v", v)
		}

		forged := call()
		forged.Digest = strings.Repeat("0", 64)
		if _, err := w.Request(t.Context(), forged); problem.CodeOf(err) != "approval_digest_mismatch" {
			t.Errorf("a request with the digest of another call: %v", err)
		}
		if _, err := w.Request(t.Context(), messages.ApprovalRequest{Kind: messages.ApproveLaunch}); problem.CodeOf(err) != "approval_not_bound" {
			t.Errorf("a launch without a plan: %v", err)
		}
	})
}

func TestApproval_ARestartedDaemonRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t, &disk{})
		got := first.request(t.Context())
		r := <-first.asked
		if _, err := first.tree.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v.Outcome != messages.OutcomeWithdrawn {
			t.Errorf("the caller of a stopped daemon: %+v", v)
		}
		// As kill -9 leaves it: the row is there, without a verdict.
		first.disk.rows[r.ID] = messages.ApprovalRow{ApprovalRequest: r}

		second := newWorld(t, first.disk)
		if row := first.disk.row(r.ID); row.Verdict == nil || row.Verdict.Outcome != messages.OutcomeWithdrawn {
			t.Fatalf("after the restart: %+v", row.Verdict)
		}
		if open, _ := second.List(t.Context()); len(open) != 0 {
			t.Errorf("asked again: %+v", open)
		}
		if err := second.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_already_decided" {
			t.Errorf("an answer to the earlier daemon's question: %v", err)
		}
	})
}

func TestApproval_WhatIsNotOnDiskIsNoApproval(t *testing.T) {
	full := errors.New("no space left on device")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{fail: func(row messages.ApprovalRow) error { return full }})
		if v := <-w.request(t.Context()); v.err != nil || v.Outcome != messages.OutcomeWithdrawn {
			t.Errorf("a question that could not be recorded: %+v", v)
		}
		if len(w.asked) != 0 {
			t.Error("the owner was asked all the same")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{fail: func(row messages.ApprovalRow) error {
			if row.Verdict != nil {
				return full
			}
			return nil
		}})
		got := w.request(t.Context())
		r := <-w.asked
		if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeApproved, "tray", ""); problem.CodeOf(err) != "approval_not_recorded" {
			t.Errorf("the tray: %v", err)
		}
		if v := <-got; v.Outcome != messages.OutcomeWithdrawn {
			t.Errorf("the caller: %+v", v)
		}
	})
}

func TestApproval_AnAgentCannotBuryTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{}, func(_ *supervise.Policy, c *approvals.Config) { c.MaxOpen = 2 })
		first, second := w.request(t.Context()), w.request(t.Context())
		a, b := <-w.asked, <-w.asked
		if v := <-w.request(t.Context()); problem.CodeOf(v.err) != "too_many_approvals" {
			t.Errorf("a third: %+v", v)
		}
		other := call()
		other.Connection = "conn-2"
		ctx, cancel := context.WithCancel(t.Context())
		go w.Request(ctx, other)
		<-w.asked
		cancel()
		for _, r := range []messages.ApprovalRequest{a, b} {
			if err := w.Decide(t.Context(), r.ID, r.Digest, messages.OutcomeDenied, "tray", ""); err != nil {
				t.Fatal(err)
			}
		}
		<-first
		<-second
		third := w.request(t.Context())
		<-w.asked
		if v := <-third; v.Outcome != messages.OutcomeTimedOut {
			t.Errorf("after the others were answered: %+v", v)
		}
	})
}

// Programs that have the owner's key use up the places that they share, not those
// of whoever sits at a terminal.
func TestApproval_AFloodLeavesTheOwnersTerminalItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &disk{}, func(_ *supervise.Policy, c *approvals.Config) { c.MaxOpen = 2 })
		ctx, cancel := context.WithCancel(t.Context())
		var over sync.WaitGroup
		for range 2 {
			over.Go(func() { _, _ = w.Request(ctx, call()) })
			<-w.asked
		}
		if v := <-w.request(ctx); problem.CodeOf(v.err) != "too_many_approvals" {
			t.Errorf("a third: %+v", v)
		}
		at := approvals.AtTerminal(ctx, func() string { return "pts/3" })
		for range 2 {
			over.Go(func() { _, _ = w.Request(at, call()) })
			if r := <-w.asked; r.Terminal != "pts/3" {
				t.Errorf("the owner reads %q", r.Terminal)
			}
		}
		if v := <-w.request(at); problem.CodeOf(v.err) != "too_many_approvals" {
			t.Errorf("a third at the terminal: %+v", v)
		}
		cancel()
		over.Wait()
	})
}

// A crash of a request's actor at any of its messages ends in a refusal, an
// entry on disk, and a free gate; never in a yes that nobody gave, and never in
// a caller that waits for ever.
func TestApproval_CrashAtEachMessageIsARefusal(t *testing.T) {
	for _, kind := range []supervise.FaultKind{supervise.Panic, supervise.Goexit} {
		for n := uint64(1); n <= 7; n++ {
			t.Run(fmt.Sprintf("kind %d, message %d", kind, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hit := false
					w := newWorld(t, &disk{}, func(p *supervise.Policy, _ *approvals.Config) {
						p.Intercept = func(path string, gen, m uint64, msg any) supervise.Fault {
							if m != n {
								return supervise.Fault{}
							}
							hit = true
							return supervise.Fault{Do: kind}
						}
					})
					got := w.request(t.Context())
					var decided error
					answered := make(chan struct{})
					go func() {
						defer close(answered)
						select {
						case r := <-w.asked:
							decided = w.Decide(context.Background(), r.ID, r.Digest, messages.OutcomeApproved, "tray", "")
						case <-time.After(time.Hour):
							decided = errors.New("never asked")
						}
					}()
					v := <-got
					<-answered
					synctest.Wait()
					approved := v.err == nil && v.Outcome == messages.OutcomeApproved
					if hit && decided != nil && approved {
						t.Errorf("approved although the tray was told %v", decided)
					}
					if !hit && !approved {
						t.Errorf("no fault, and yet %+v", v)
					}
					for id, row := range w.disk.rows {
						if row.Verdict == nil {
							t.Errorf("%s is left open", id)
						} else if row.Verdict.Outcome != v.Outcome {
							t.Errorf("disk says %s, the caller was told %s", row.Verdict.Outcome, v.Outcome)
						}
					}
					if open, _ := w.List(t.Context()); len(open) != 0 {
						t.Errorf("still listed: %+v", open)
					}
				})
			})
		}
	}
}

// Trays that race, callers that go, a slow disk that fails, actors that crash:
// at most one answer counts, and caller, disk and trays agree on which.
func TestApproval_OneShotUnderAnySchedule(t *testing.T) {
	type tray struct {
		after   time.Duration
		outcome string
	}
	ms := func(t *rapid.T, name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	rapid.Check(t, func(rt *rapid.T) {
		trays := make([]tray, rapid.IntRange(0, 5).Draw(rt, "trays"))
		for i := range trays {
			trays[i] = tray{ms(rt, "after", 60), rapid.SampledFrom([]string{messages.OutcomeApproved, messages.OutcomeDenied}).Draw(rt, "outcome")}
		}
		timeout := ms(rt, "timeout", 50) + time.Millisecond
		leaves := ms(rt, "caller leaves", 100)
		slow := ms(rt, "disk", 10)
		failAt := rapid.IntRange(0, 4).Draw(rt, "disk fails at write")
		crashAt := uint64(rapid.IntRange(0, 14).Draw(rt, "crash at message"))
		var bad string
		synctest.Test(t, func(t *testing.T) {
			writes := 0
			d := &disk{wait: func(messages.ApprovalRow) time.Duration { return slow }}
			d.fail = func(messages.ApprovalRow) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				if writes++; writes == failAt {
					return errors.New("I/O error")
				}
				return nil
			}
			w := newWorld(t, d, func(p *supervise.Policy, c *approvals.Config) {
				c.Timeout = timeout
				p.Intercept = func(_ string, _, n uint64, _ any) supervise.Fault {
					if n == crashAt {
						return supervise.Fault{Do: supervise.Panic}
					}
					return supervise.Fault{}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), leaves)
			defer cancel()
			got := w.request(ctx)
			accepted := make(chan string, len(trays))
			var all sync.WaitGroup
			all.Go(func() {
				select {
				case r := <-w.asked:
					for i, tr := range trays {
						all.Go(func() {
							time.Sleep(tr.after)
							if w.Decide(context.Background(), r.ID, r.Digest, tr.outcome, fmt.Sprint("tray ", i), "") == nil {
								accepted <- fmt.Sprint(tr.outcome, " by tray ", i)
							}
						})
					}
				case <-time.After(time.Second):
				}
			})
			v := <-got
			all.Wait()
			time.Sleep(time.Minute) // of virtual time: the disk finishes
			close(accepted)
			taken := slices.Collect(func(yield func(string) bool) {
				for a := range accepted {
					if !yield(a) {
						return
					}
				}
			})
			is := v.Outcome + " by " + v.By
			open, _ := w.List(t.Context())
			switch {
			case v.err != nil && v.ID != "":
				bad = fmt.Sprintf("an error and a verdict: %+v", v)
			case len(taken) > 1:
				bad = fmt.Sprintf("%d answers were taken: %v", len(taken), taken)
			case len(open) > 0:
				bad = fmt.Sprintf("still listed: %+v", open)
			case v.Outcome == messages.OutcomeApproved && crashAt == 0 && (len(taken) != 1 || taken[0] != is):
				bad = fmt.Sprintf("the caller was told %q, accepted was %v", is, taken)
			case v.Outcome == messages.OutcomeApproved && (d.row(v.ID).Verdict == nil || d.row(v.ID).Verdict.Outcome != v.Outcome):
				bad = fmt.Sprintf("approved, and on disk is %+v", d.row(v.ID).Verdict)
			case v.Outcome == messages.OutcomeApproved && !slices.ContainsFunc(trays, func(tr tray) bool { return tr.outcome == messages.OutcomeApproved }):
				bad = "approved by nobody"
			}
			// For each request the trays hear asked, then one answer.
			heard := map[string]int{}
			for _, e := range w.told() {
				what, id, _ := strings.Cut(e, " ")
				if what == "asked" && heard[id] != 0 || what != "asked" && heard[id] > 1 {
					bad = fmt.Sprintf("trays were told %v", w.told())
				}
				if what == "asked" {
					heard[id] = 1
				} else {
					heard[id] += 2
				}
			}
			for id := range maps.Keys(heard) {
				if heard[id] == 1 {
					bad = fmt.Sprintf("trays were never told the end: %v", w.told())
				}
			}
		})
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}
