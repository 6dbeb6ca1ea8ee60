package approvals

import (
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

// phase is where a request stands.
type phase uint8

const (
	recording phase = iota // the question is on its way to disk
	waiting                // the owner is asked
	answering              // an answer was taken and is on its way to disk
	closed                 // told to everybody; nothing changes it any more
)

func (p phase) String() string { return [...]string{"recording", "waiting", "answering", "closed"}[p] }

// core is the rules of one request, without clocks, disks or goroutines. Each
// method is one event and returns what is to be done.
type core struct {
	row   messages.ApprovalRow
	phase phase
	taken messages.ApprovalVerdict // from answering on
	gone  *string                  // the caller went while the question was being recorded; why
}

// step is what is to be done after an event, in this order.
type step struct {
	ask    bool                      // tell the trays and start the clock
	record *messages.ApprovalVerdict // put the row with this verdict, then call recorded
	close  *messages.ApprovalVerdict // tell everybody, and end
}

// asked: the question is on disk, or could not be put there.
func (c *core) asked(err error, now time.Time) step {
	if c.phase != recording {
		return step{}
	}
	if err != nil {
		return c.end(c.verdict(messages.OutcomeWithdrawn, "", "the request could not be recorded", now))
	}
	c.phase = waiting
	if c.gone != nil { // nobody needs to be asked
		return c.take(c.verdict(messages.OutcomeWithdrawn, "", *c.gone, now))
	}
	return step{ask: true}
}

// decide: somebody answered. An error says why the answer does not count.
func (c *core) decide(digest, outcome, by, reason string, now time.Time) (step, error) {
	switch {
	case outcome != messages.OutcomeApproved && outcome != messages.OutcomeDenied:
		return step{}, problem.New("invalid_outcome", "%q is no answer to an approval", outcome).
			WithValid(messages.OutcomeApproved, messages.OutcomeDenied)
	case c.phase == recording:
		return step{}, problem.New("approval_not_ready", "%s is not asked yet", c.row.ID).WithHint("Try again in a moment.")
	case c.phase != waiting:
		return step{}, alreadyDecided(c.taken)
	case digest != c.row.Digest:
		return step{}, problem.New("approval_digest_mismatch", "the answer is for something else than what %s asks", c.row.ID).
			WithHint("Look at the request again.")
	case !now.Before(c.row.Expires):
		// The clock's message is on its way; the answer came too late all the same.
		return c.take(c.verdict(messages.OutcomeTimedOut, "", "", now)), alreadyDecided(c.verdict(messages.OutcomeTimedOut, "", "", now))
	}
	return c.take(c.verdict(outcome, by, reason, now)), nil
}

// expired: nobody answered in time.
func (c *core) expired(now time.Time) step {
	if c.phase != waiting {
		return step{}
	}
	return c.take(c.verdict(messages.OutcomeTimedOut, "", "", now))
}

// withdrawn: the caller has gone.
func (c *core) withdrawn(reason string, now time.Time) step {
	switch c.phase {
	case recording: // one write at a time: asked goes on from here
		c.gone = &reason
	case waiting:
		return c.take(c.verdict(messages.OutcomeWithdrawn, "", reason, now))
	}
	return step{}
}

// recorded: the answer is on disk, or could not be put there. What is not on
// disk is not an approval.
func (c *core) recorded(err error, now time.Time) step {
	if c.phase != answering {
		return step{}
	}
	if err != nil && c.taken.Outcome == messages.OutcomeApproved {
		return c.end(c.verdict(messages.OutcomeWithdrawn, "", "the answer could not be recorded", now))
	}
	return c.end(c.taken)
}

func (c *core) take(v messages.ApprovalVerdict) step {
	c.phase, c.taken = answering, v
	return step{record: &v}
}

func (c *core) end(v messages.ApprovalVerdict) step {
	c.phase, c.taken = closed, v
	return step{close: &v}
}

func (c *core) verdict(outcome, by, reason string, now time.Time) messages.ApprovalVerdict {
	return verdictOf(c.row.ApprovalRequest, outcome, by, reason, now)
}

func verdictOf(r messages.ApprovalRequest, outcome, by, reason string, now time.Time) messages.ApprovalVerdict {
	return messages.ApprovalVerdict{ID: r.ID, Outcome: outcome, By: by, Reason: reason, Digest: r.Digest, Decided: now}
}

func alreadyDecided(v messages.ApprovalVerdict) *problem.Error {
	if v.By != "" {
		return problem.New("approval_already_decided", "%s was %s by %s", v.ID, words(v.Outcome), v.By)
	}
	return problem.New("approval_already_decided", "%s was %s", v.ID, words(v.Outcome))
}

func words(outcome string) string {
	if outcome == messages.OutcomeTimedOut {
		return "timed out"
	}
	return outcome
}

// Refusal is the error that a verdict means for the caller, nil when it was
// approved: approval_denied, approval_timed_out or approval_withdrawn.
func Refusal(v messages.ApprovalVerdict) error {
	because := ""
	if v.Reason != "" {
		because = ": " + v.Reason
	}
	switch v.Outcome {
	case messages.OutcomeApproved:
		return nil
	case messages.OutcomeDenied:
		return problem.New("approval_denied", "the owner denied this%s", because).
			WithHint("Do not ask for the same again; ask the owner what they would rather have.")
	case messages.OutcomeTimedOut:
		return problem.New("approval_timed_out", "the owner did not answer in time").
			WithHint("Go on with something else, and ask again when the owner is there.")
	}
	return problem.New("approval_withdrawn", "the request was withdrawn before the owner answered%s", because).
		WithHint("Ask again if it is still wanted.")
}
