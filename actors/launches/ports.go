package launches

import (
	"context"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope"
	"sophia/messages"
	"sophia/messages/secret"
)

// Store keeps leases. Put is acknowledged only when it is on disk, and is
// journaled with why.
type Store interface {
	PutLease(ctx context.Context, l messages.Lease, why string) error
	Leases(ctx context.Context) ([]messages.Lease, error)
}

// Gate asks the owner.
type Gate interface {
	Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error)
}

// Planner says what would run if it ran now. The same order is compiled for
// the proposal and again after the approval, and the two must be equal.
type Planner interface {
	Compile(ctx context.Context, o Order) (messages.Plan, error)
}

// Order is what was asked for. Empty fields come from the launch profile.
type Order struct {
	Launch, Lease string // given by the service
	Resumes       string // asked for: the launch to go on from; compiled: that launch's lease
	Workspace     string
	Profile       string
	Harness       string
	Seat          string
	Permission    messages.Profile
	Surface       messages.Surface
	Scope         []string
	LeaseSeconds  int
	WriteApproval string
	Confine       string
	Isolated      bool
	Arguments     []string
	Rows, Cols    uint16 // of the terminal before a viewer comes
	Terminal      string // of the owner's, at which it was asked for; see messages.ApprovalRequest
}

// Host is everything that touches the machine. Every method but Start, which is
// called once, may be called again for the same launch after a crash, and then
// finishes what the first call began. Errors are *problem.Error.
type Host interface {
	// Prepare does the work of Verify ahead, while the owner reads. An error
	// means nothing yet: Verify will say the same. The caller closes what it gets.
	Prepare(ctx context.Context, p messages.Plan) (Held, error)
	// Verify holds the harness's bytes, compares them with the plan and
	// witnesses the version. ahead is what Prepare gave, or nil: it is returned,
	// if it is certain that nothing has changed since, or closed. The caller
	// closes what it gets.
	Verify(ctx context.Context, p messages.Plan, ahead Held) (Held, error)
	// Evidence is what the owner's configuration looks like now.
	Evidence(ctx context.Context, p messages.Plan) ([]messages.SourceState, error)
	// Start builds the overlay, writes the manifest and starts the unit, with the
	// harness still held.
	Start(ctx context.Context, s StartSpec) (messages.UnitRef, error)
	// TakeUp tells of a launch of an earlier daemon, before any new one starts:
	// what was lent to it is on loan still.
	TakeUp(ctx context.Context, l messages.Lease) error
	// Watch returns when the unit is no longer active, with the host's last
	// report if it wrote one.
	Watch(ctx context.Context, launch string, u messages.UnitRef) (messages.HostReport, error)
	// Stop asks systemd to stop the unit and returns when that is done, also
	// where there is no such unit. u is empty where the start was cut off.
	Stop(ctx context.Context, launch string, u messages.UnitRef) error
	// Quiet returns "" once no process of the launch is alive, or after the
	// bound a description of those that are.
	Quiet(ctx context.Context, launch string, u messages.UnitRef, bound time.Duration) (survivors string, err error)
	// Compare takes the evidence after and gives a rotated credential back.
	Compare(ctx context.Context, l messages.Lease) (messages.Evidence, error)
	// Remove deletes the launch's folder.
	Remove(ctx context.Context, launch string) error
	// Strip deletes the copy of the owner's credential from a folder that is kept.
	Strip(ctx context.Context, l messages.Lease) error
	// Folders lists the launches that have a folder.
	Folders() ([]string, error)
	// TerminalSocket is where the launch's terminal relay listens.
	TerminalSocket(launch string) string
}

// Held is a verified harness, open from its hash to its start.
type Held interface{ Close() error }

// StartSpec is what Host.Start needs.
type StartSpec struct {
	Plan        messages.Plan
	PlanDigest  string
	Held        Held
	TokenSHA256 string // of the attach token, hex
	Rows, Cols  uint16
}

// Connections mints and revokes the connection of a lease.
type Connections interface {
	MintForLease(ctx context.Context, p messages.Plan, expires time.Time) (messages.ConnectionRow, *secret.Secret, error)
	RevokeForLease(ctx context.Context, lease string) error
}

// Relays makes the envelope relay of one launch; *envelope.Directory is one.
type Relays interface {
	Relay(envelope.Spec) actor.Receiver
}
