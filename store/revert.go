package store

import (
	"bytes"
	"context"
	"encoding/json"

	"sophia/messages/problem"
)

// Conflict is returned by Revert when later changes of the row stand in the
// way. Code: revert_conflict.
type Conflict struct {
	Problem *problem.Error
	Entries []Entry // what stands in the way, oldest first
}

// Error is the problem's text.
func (c *Conflict) Error() string { return c.Problem.Error() }

// Unwrap returns the problem.
func (c *Conflict) Unwrap() error { return c.Problem }

// Revert undoes one journal entry by writing the row as it was before. It is a
// write like any other: journaled, and itself revertible. When the row isn't
// any more as the entry left it, it is refused with a *Conflict; cascade undoes
// what came later too, by writing the older state over it.
func (tx *Tx) Revert(seq uint64, cascade bool) error {
	r := Reader{db: tx.db, view: tx.view, scope: tx.cause.Scope}
	e, err := r.Entry(seq)
	if err != nil {
		return err
	}
	d := tx.db.byName[e.Table]
	if d == nil {
		return problem.New("table_unknown", "the table %s does not exist any more", e.Table)
	}
	now, err := tx.current(d, e.Key)
	if err != nil {
		return err
	}
	if !sameJSON(now, e.After) && !cascade {
		later, _, err := r.Later(&e)
		if err != nil {
			return err
		}
		ids := make([]string, len(later))
		for i := range later {
			ids[i] = tx.db.ID(later[i].Seq)
		}
		p := problem.New("revert_conflict", "the %s %q was changed again after %s", d.noun, e.Key, tx.db.ID(seq)).WithValid(ids...)
		if sameJSON(now, e.Before) {
			p = problem.New("revert_conflict", "%s is undone already: the %s %q is as it was before", tx.db.ID(seq), d.noun, e.Key).WithValid(ids...)
		}
		return &Conflict{Problem: p.WithHint("Revert the later changes first, newest first, or pass cascade: true to write the older state over them."), Entries: later}
	}
	tx.reverts = seq
	defer func() { tx.reverts = 0 }()
	return d.change(tx, e.Key, now, e.Before)
}

// Later are the visible entries of the same row after e, oldest first, and
// whether the row is still as e left it.
func (r *Reader) Later(e *Entry) (later []Entry, current bool, err error) {
	page, err := r.Mutations(MutationQuery{Table: e.Table, Key: e.Key})
	if err != nil {
		return nil, false, err
	}
	for i := len(page.Items) - 1; i >= 0; i-- {
		if page.Items[i].Seq > e.Seq {
			later = append(later, page.Items[i])
		}
	}
	d := r.db.byName[e.Table]
	if d == nil {
		return later, false, nil
	}
	now, err := getRow(&r.view, r.scope, d, e.Key)
	if problem.CodeOf(err) == "not_found" {
		now, err = nil, nil
	}
	return later, err == nil && sameJSON(now, e.After), err
}

// Revert is a Write that undoes one entry.
func Revert(ctx context.Context, w Writer, cause Cause, seq uint64, cascade bool) (Receipt, error) {
	return w.Write(ctx, cause, func(tx *Tx) error { return tx.Revert(seq, cascade) })
}

func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return bytes.Equal(a, b)
}
