package main

import (
	"context"

	"sophia/actors/approvals"
	"sophia/actors/writer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// writerLookup is the one writer of the running tree.
type writerLookup struct{ d *sophiad }

func (w writerLookup) Write(ctx context.Context, cause store.Cause, f func(*store.Tx) error) (store.Receipt, error) {
	root := w.d.root.Load()
	if root == nil {
		return store.Receipt{}, problem.New("store_unavailable", "the daemon is starting").WithHint("Try again in a moment.")
	}
	receipt, err := writer.New(root.Lookup(writer.ID)).Write(ctx, cause, f)
	if problem.CodeOf(err) == "store_write_failed" {
		w.d.fail(err)
	}
	return receipt, err
}

// fail ends the daemon: a store whose last commit is in doubt answers nothing
// more, and only a new start finds out what is on disk.
func (d *sophiad) fail(err error) {
	select {
	case d.fatal <- err:
	default: // it is ending already
	}
}

func system(reason string) store.Cause { return store.System("sophiad", reason) }

// approvalStore keeps the gate's rows.
type approvalStore struct{ d *sophiad }

var _ approvals.Store = approvalStore{}

func (s approvalStore) Put(ctx context.Context, row messages.ApprovalRow) error {
	reason := "approval requested"
	if row.Verdict != nil {
		reason = "approval " + row.Verdict.Outcome
	}
	_, err := s.d.write.Write(ctx, system(reason), func(tx *store.Tx) error { return tables.Approvals.Put(tx, row) })
	return err
}

func (s approvalStore) Open(context.Context) ([]messages.ApprovalRow, error) {
	r := s.d.db.View(store.Owner())
	defer r.Close()
	return tables.Approvals.All(r, store.Query[messages.ApprovalRow]{Index: "open"})
}

// leaseStore keeps the launches' rows.
type leaseStore struct{ d *sophiad }

func (s leaseStore) PutLease(ctx context.Context, l messages.Lease, why string) error {
	_, err := s.d.write.Write(ctx, system(why), func(tx *store.Tx) error { return tables.Leases.Put(tx, l) })
	return err
}

func (s leaseStore) Leases(context.Context) ([]messages.Lease, error) {
	r := s.d.db.View(store.Owner())
	defer r.Close()
	return tables.Leases.All(r, store.Query[messages.Lease]{})
}

// gateOf is the gate, which is made after the services that ask it.
type gateOf struct{ d *sophiad }

func (g gateOf) Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	return g.d.gate.Request(ctx, r)
}
