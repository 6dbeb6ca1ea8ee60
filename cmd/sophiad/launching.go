package main

import (
	"context"
	"path/filepath"
	"time"

	"sophia/actors/approvals"
	"sophia/actors/envelope"
	"sophia/actors/launches"
	hostenvelope "sophia/hostd/envelope"
	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// newRelays makes the envelope relays: the lease mints, the connection's row
// says whose bearer it is.
func (d *sophiad) newRelays() *envelope.Directory {
	return envelope.NewDirectory(envelope.Config{
		Listen: func(launch string) (envelope.Socket, error) {
			return hostenvelope.Listen(filepath.Join(d.dirs.Launches(), launch))
		},
		MCP:      func() string { return d.address.MCP },
		Broker:   d.dirs.Broker(),
		Redeemer: minter{d},
		Receipts: receipts{d},
		Fail:     func(launch, code, reason string) { d.launches.Fail(launch, code, reason) },
		Log:      d.log,
	})
}

type minter struct{ d *sophiad }

func (m minter) Redeem(ctx context.Context, launch, lease, wrapper string, handle *secret.Secret) (*secret.Secret, error) {
	return m.d.launches.Redeem(ctx, launch, lease, wrapper, handle)
}

type receipts struct{ d *sophiad }

func (r receipts) Receipt(ctx context.Context, bearer [32]byte, nonce string) (messages.WorkReceipt, error) {
	a, ok, err := r.d.connections.ByBearer(ctx, bearer)
	if err != nil {
		return messages.WorkReceipt{}, err
	}
	if !ok {
		return messages.WorkReceipt{}, problem.New("invalid_or_revoked_bearer", "the bearer is unknown, revoked or expired")
	}
	return r.d.launches.Receipt(ctx, a, nonce)
}

// launchesAPI is the launches as the owner API sees them.
type launchesAPI struct {
	d *sophiad
	*launches.Service
}

func (l launchesAPI) Propose(ctx context.Context, workspace string, ask ownerapi.StartRequest) (messages.Lease, error) {
	if err := l.d.host.Ready(ctx); err != nil {
		return messages.Lease{}, err
	}
	return l.Service.Propose(ctx, launches.Order{
		Workspace: workspace, Resumes: ask.Resume, Profile: ask.Profile, Harness: ask.Harness, Seat: ask.Seat, Permission: ask.Permission, Surface: ask.Surface,
		Scope: ask.Scope, LeaseSeconds: ask.LeaseSeconds, WriteApproval: ask.WriteApproval, Confine: ask.Confine, Isolated: ask.Isolated,
		Arguments: ask.Arguments, Rows: ask.Rows, Cols: ask.Cols, Terminal: approvals.Terminal(ctx),
	})
}

// harnesses lists, adopts and finds the programs that launches run.
type harnesses struct {
	set     contracts.Set
	adopter adopt.Adopter
}

func newHarnesses(set contracts.Set, v harness.Verifier, root string) *harnesses {
	return &harnesses{set: set, adopter: adopt.Adopter{Contracts: set, Root: root, Scratch: v.Scratch, Now: time.Now}}
}

// Program implements launch.Installations. Error: harness_not_adopted.
func (h *harnesses) Program(_ context.Context, id string) (path, tree string, err error) {
	a, err := h.adopter.Current(id)
	if err != nil {
		return "", "", err
	}
	return a.Identity.Path, a.Tree, nil
}

// List implements ownerapi.Harnesses.
func (h *harnesses) List(context.Context) (out []ownerapi.Harness, err error) {
	for _, id := range h.set.IDs() {
		c, err := h.set.Get(id)
		if err != nil {
			return nil, err
		}
		row := ownerapi.Harness{Harness: id, Title: c.Name, Version: c.Version}
		a, err := h.adopter.Current(id)
		switch {
		case err == nil:
			row = adopted(row, a)
		case problem.CodeOf(err) != "harness_not_adopted":
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// Adopt implements ownerapi.Harnesses.
func (h *harnesses) Adopt(ctx context.Context, ask ownerapi.AdoptRequest) (ownerapi.Harness, error) {
	c, err := h.set.Get(ask.Harness)
	if err != nil {
		return ownerapi.Harness{}, err
	}
	a, err := h.adopter.Adopt(ctx, ask.Harness, ask.Path)
	return adopted(ownerapi.Harness{Harness: c.ID, Title: c.Name, Version: c.Version}, a), err
}

func adopted(row ownerapi.Harness, a messages.AdoptedHarness) ownerapi.Harness {
	row.Adopted, row.Tree, row.Path, row.Identity, row.At = true, a.Tree, a.Identity.Path, &a.Identity, &a.Adopted
	return row
}
