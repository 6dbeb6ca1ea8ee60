package ownerapi

import (
	"context"
	"encoding/json"

	"sophia/hostd/doctor"
	"sophia/messages"
	"sophia/messages/secret"
)

// Services are what the daemon fills in. A nil one answers not_available. Errors
// that are no problem.Error reach the client as "internal".
type Services struct {
	Status      func(ctx context.Context) (Status, error)
	Connections Connections
	Workspaces  Workspaces
	Launches    Launches
	Approvals   Approvals
	Trays       Trays
	Journal     Journal
	Tools       Tools
	Harnesses   Harnesses
	// Doctor tells what the daemon knows of its own health; full makes the long
	// checks too: every byte of the store and of the adopted harnesses.
	Doctor func(ctx context.Context, full bool) (doctor.Daemon, error)
}

// Connections mints and revokes. Mint says what no connection can be (invalid_…),
// waits for the owner where that takes presence, and returns the bearer this
// once; the caller zeroes it.
type Connections interface {
	Mint(ctx context.Context, ask MintRequest) (messages.ConnectionRow, *secret.Secret, error)
	List(ctx context.Context) ([]messages.ConnectionRow, error)
	Revoke(ctx context.Context, id string) (messages.ConnectionRow, error)
}

// Workspaces registers checkouts and offers their launch profiles.
type Workspaces interface {
	Add(ctx context.Context, ask AddWorkspace) (AddedWorkspace, error)
	List(ctx context.Context) ([]messages.Workspace, error)
	Profiles(ctx context.Context, workspace string) ([]messages.LaunchProfile, error)
}

// Launches proposes, watches and stops launches. A launch is named by its lp-
// identifier.
type Launches interface {
	// Propose prepares the plan and asks the owner; it returns as soon as the
	// launch waits for an answer.
	Propose(ctx context.Context, workspace string, ask StartRequest) (messages.Lease, error)
	List(ctx context.Context) ([]messages.Lease, error)
	Get(ctx context.Context, launch string) (messages.Lease, error)
	// Wait returns once the state is another than after, or with what there is
	// when ctx ends.
	Wait(ctx context.Context, launch string, after messages.LeaseState) (messages.Lease, error)
	// Attach gives out the one attach token of a launch, once: token_consumed
	// after that. The caller zeroes it.
	Attach(ctx context.Context, launch string) (socket string, token *secret.Secret, err error)
	// Stop asks for the end; Wait tells when it has come.
	Stop(ctx context.Context, launch string) (messages.Lease, error)
}

// Approvals is the gate, as actors/approvals.Gate is it.
type Approvals interface {
	List(ctx context.Context) ([]messages.ApprovalRequest, error)
	Decide(ctx context.Context, id, digest, outcome, by, reason string) error
}

// Trays is where a tray listens, as actors/trays.Hub is it.
type Trays interface {
	Subscribe(ctx context.Context, name string) (Feed, error)
}

// Feed is one tray's events. Next waits for at least one; it fails when the
// tray was dropped for being slow, and a new subscription catches up.
type Feed interface {
	Next(ctx context.Context) ([]messages.TrayEvent, error)
	Close()
}

// Journal lists and reverts.
type Journal interface {
	List(ctx context.Context, query JournalQuery) (Page[Mutation], error)
	Get(ctx context.Context, seq uint64) (Mutation, error)
	Revert(ctx context.Context, seq uint64, reason string) (Mutation, error)
}

// Tools is the surface under the owner's own authority.
type Tools interface {
	List(ctx context.Context) ([]Tool, error)
	Describe(ctx context.Context, name string) (Tool, error)
	Call(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
}

// Harnesses lists the contracts and adopts.
type Harnesses interface {
	List(ctx context.Context) ([]Harness, error)
	Adopt(ctx context.Context, ask AdoptRequest) (Harness, error)
}

// TraysFrom makes Trays of a subscribe function that returns its own kind of
// feed, as actors/trays.Hub.Subscribe does.
func TraysFrom[F Feed](subscribe func(ctx context.Context, name string) (F, error)) Trays {
	return traysFunc(func(ctx context.Context, name string) (Feed, error) {
		feed, err := subscribe(ctx, name)
		if err != nil {
			return nil, err // not a nil F in a Feed
		}
		return feed, nil
	})
}

type traysFunc func(ctx context.Context, name string) (Feed, error)

func (f traysFunc) Subscribe(ctx context.Context, name string) (Feed, error) { return f(ctx, name) }
