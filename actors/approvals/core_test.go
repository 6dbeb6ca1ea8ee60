package approvals

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/messages"
	"sophia/messages/problem"
)

// Any order of events: one end at most, nothing after it, a yes only when the
// first answer was a timely yes to this very question that reached the disk.
func TestCore_OneAnswerUnderAnySchedule(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		c := core{row: messages.ApprovalRow{ApprovalRequest: messages.ApprovalRequest{ID: "ap-1", Digest: "d", Expires: start.Add(time.Minute)}}}
		now := start
		var accepted, ends, writes int
		var yes bool // an accepted answer was an approval
		var end messages.ApprovalVerdict
		note := func(s step) {
			if ends > 0 && (s.ask || s.record != nil || s.close != nil) {
				t.Fatalf("something is done after the end: %+v", s)
			}
			if s.record != nil {
				writes++
			}
			if s.close != nil {
				ends, end = ends+1, *s.close
			}
		}
		var failed bool // the disk refused the answer
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"asked", "asked failed", "approve", "approve", "deny", "forged", "expire", "withdraw", "recorded", "record failed", "wait"}).Draw(t, "event") {
			case "asked":
				note(c.asked(nil, now))
			case "asked failed":
				note(c.asked(errors.New("disk"), now))
			case "approve":
				was := c.phase
				s, err := c.decide("d", messages.OutcomeApproved, "tray", "", now)
				if err == nil {
					accepted++
					yes = true
					if was != waiting || !now.Before(c.row.Expires) {
						t.Fatalf("accepted while %v at %v", was, now.Sub(start))
					}
				}
				note(s)
			case "deny":
				s, err := c.decide("d", messages.OutcomeDenied, "tray", "no", now)
				if err == nil {
					accepted++
				}
				note(s)
			case "forged":
				s, err := c.decide("other", messages.OutcomeApproved, "tray", "", now)
				if err == nil {
					t.Fatal("an answer to something else was taken")
				}
				note(s)
			case "expire":
				note(c.expired(now))
			case "withdraw":
				note(c.withdrawn("gone", now))
			case "recorded":
				note(c.recorded(nil, now))
			case "record failed":
				failed = failed || c.phase == answering
				note(c.recorded(errors.New("disk"), now))
			case "wait":
				now = now.Add(20 * time.Second)
			}
		}
		if accepted > 1 || ends > 1 || writes > 1 {
			t.Fatalf("%d answers taken, %d ends, %d writes", accepted, ends, writes)
		}
		if ends == 1 && end.Outcome == messages.OutcomeApproved && (!yes || failed) {
			t.Fatalf("a yes out of nothing: accepted %v, disk failed %v", yes, failed)
		}
		if ends == 1 && yes && !failed && end.Outcome != messages.OutcomeApproved {
			t.Fatalf("the yes was lost: %+v", end)
		}
	})
}

func TestCore_EachRefusalHasItsCode(t *testing.T) {
	for outcome, code := range map[string]string{
		messages.OutcomeApproved:  "",
		messages.OutcomeDenied:    "approval_denied",
		messages.OutcomeTimedOut:  "approval_timed_out",
		messages.OutcomeWithdrawn: "approval_withdrawn",
		"anything else":           "approval_withdrawn",
	} {
		if got := problem.CodeOf(Refusal(messages.ApprovalVerdict{Outcome: outcome})); got != code {
			t.Errorf("%s: %q, want %q", outcome, got, code)
		}
	}
}
