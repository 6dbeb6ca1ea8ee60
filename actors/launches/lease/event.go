package lease

import "sophia/messages"

// An Event is something that happened to a launch.
type Event interface{ Name() string }

type (
	// Submitted: the plan is complete and can be shown to the owner.
	Submitted struct{}
	// Verdict is the owner's answer, or that there was none.
	Verdict struct {
		Outcome string // one of messages.Outcome…
		Digest  string // of the plan that the owner saw
		Reason  string
	}
	// Matched: every field of the approved plan equals the operation.
	Matched struct{}
	// Verified: the harness is held and its version witnessed, and this is what
	// the owner's configuration looks like before anything runs. It is stored with
	// the state that starts the unit: a crash in the middle must not lose it.
	Verified struct{ Before []messages.SourceState }
	// Started: systemd runs the unit.
	Started struct{ Unit messages.UnitRef }
	// Redeemed: the handle was changed for the bearer of this connection.
	Redeemed struct{ Connection string }
	// Proven: the wrapper proved its bearer against this lease.
	Proven struct{}
	// Refused: a check failed. Code names it.
	Refused struct{ Code, Reason string }
	// Failed: something that the launch can't do without is gone.
	Failed struct{ Code, Reason string }
	// StopAsked: the owner, or the end of the lease, asks for the stop.
	StopAsked struct{ Code, Reason string }
	// UnitGone: the unit is no longer active. Code and Reason are those of the
	// host's last report where it refused or failed, or CodeUnitStopped.
	UnitGone struct{ Code, Reason string }
	// Quiet: no process of the unit is alive.
	Quiet struct{}
	// Unquiet: some are, and did not end within the bound.
	Unquiet struct{ Survivors string }
	// Compared: the evidence before and after, and what became of the credential.
	Compared struct{ Evidence messages.Evidence }
	// Removed: the launch's folder is gone, or what of it must not be kept.
	Removed struct{}
	// Recovered: the daemon, or the lease's actor, starts and finds this lease
	// not ended. The secrets of the earlier life are gone.
	Recovered struct{ Code, Reason string }
)

func (Submitted) Name() string { return "submitted" }
func (Verdict) Name() string   { return "verdict" }
func (Matched) Name() string   { return "matched" }
func (Verified) Name() string  { return "verified" }
func (Started) Name() string   { return "started" }
func (Redeemed) Name() string  { return "redeemed" }
func (Proven) Name() string    { return "proven" }
func (Refused) Name() string   { return "refused" }
func (Failed) Name() string    { return "failed" }
func (StopAsked) Name() string { return "stop_asked" }
func (UnitGone) Name() string  { return "unit_gone" }
func (Quiet) Name() string     { return "quiet" }
func (Unquiet) Name() string   { return "unquiet" }
func (Compared) Name() string  { return "compared" }
func (Removed) Name() string   { return "removed" }
func (Recovered) Name() string { return "recovered" }

// An Action is what the actor does after the new state is stored. Each is safe
// to perform again, because a crash between storing and performing repeats it.
type Action string

const (
	AskOwner  Action = "ask_owner"  // request the approval → Verdict
	Withdraw  Action = "withdraw"   // take the request for approval back
	Match     Action = "match"      // compile the operation, compare → Matched, Refused
	Verify    Action = "verify"     // hold and witness the harness → Verified, Refused
	Start     Action = "start"      // overlay, relay, manifest, unit → Started, Refused
	StopUnit  Action = "stop_unit"  // → UnitGone
	WatchUnit Action = "watch_unit" // → UnitGone
	Revoke    Action = "revoke"     // the lease's connection and secrets
	Gate      Action = "gate"       // prove quiescence → Quiet, Unquiet (and goes on)
	Compare   Action = "compare"    // evidence after, custody → Compared
	Remove    Action = "remove"     // the launch's folder → Removed
	Strip     Action = "strip"      // the credential out of a folder that is kept → Removed
)
