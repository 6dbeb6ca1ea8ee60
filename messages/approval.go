package messages

import (
	"encoding/json"
	"time"
)

// Kinds of approval.
const (
	ApproveToolCall   = "tool_call"
	ApproveLaunch     = "launch"
	ApproveConnection = "connection"
)

// Outcomes of an approval. Each is also the code of the refusal it leads to,
// prefixed with "approval_".
const (
	OutcomeApproved  = "approved"
	OutcomeDenied    = "denied"
	OutcomeTimedOut  = "timed_out"
	OutcomeWithdrawn = "withdrawn" // the caller went away, or the daemon restarted
)

// Change is one row as it is and as it would be.
type Change struct {
	Table  string          `json:"table"`
	Key    string          `json:"key"`
	Before json.RawMessage `json:"before"` // null on insert
	After  json.RawMessage `json:"after"`  // null on delete
	At     time.Time       `json:"-"`      // the moment of writing that After has, where it has it
}

// ApprovalRequest is what the owner is asked. Digest binds the answer to the
// very thing that was shown: SHA-256 over tool + canonical arguments +
// connection for a tool call, over the plan for a launch, over the authority and
// its time for a connection.
type ApprovalRequest struct {
	ID         string          `json:"id"` // ap-…
	Kind       string          `json:"kind"`
	Connection string          `json:"connection,omitempty"`
	Requester  string          `json:"requester"`          // display name
	Terminal   string          `json:"terminal,omitempty"` // of a login of the owner's, at which it was asked for
	Title      string          `json:"title"`              // one line
	Tool       string          `json:"tool,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Details    [][2]string     `json:"details,omitempty"` // label, value; of a launch or a connection
	Preview    []Change        `json:"preview,omitempty"`
	Digest     string          `json:"digest"` // hex
	Code       string          `json:"code"`   // what the owner types to approve on a terminal
	Requested  time.Time       `json:"requested"`
	Expires    time.Time       `json:"expires"`
}

// ApprovalVerdict is the one answer a request gets.
type ApprovalVerdict struct {
	ID      string    `json:"id"`
	Outcome string    `json:"outcome"`
	By      string    `json:"by,omitempty"` // which tray or portal session
	Reason  string    `json:"reason,omitempty"`
	Digest  string    `json:"digest"`
	Decided time.Time `json:"decided"`
}

// ApprovalRow is a request with its verdict, as stored. A row without a
// verdict found at start was cut off by a crash and counts as withdrawn.
type ApprovalRow struct {
	ApprovalRequest
	Verdict *ApprovalVerdict `json:"verdict,omitempty"`
}
