package tools

import (
	"context"
	"encoding/json"
	"time"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
)

// MutationRow is a journal entry as it is listed.
type MutationRow struct {
	ID         string    `json:"id" jsonschema:"mut-…"`
	Action     string    `json:"action" enum:"insert,update,delete"`
	Table      string    `json:"table"`
	Key        string    `json:"key"`
	Actor      string    `json:"actor" jsonschema:"the display name, as it was then"`
	Connection string    `json:"connection"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Call       string    `json:"call,omitempty"`
	Reverts    string    `json:"reverts,omitempty" jsonschema:"the mutation that this one undoes"`
}

// Mutation is a journal entry with the row before and after.
type Mutation struct {
	MutationRow
	Before  json.RawMessage `json:"before" jsonschema:"the row before; null on an insert"`
	After   json.RawMessage `json:"after" jsonschema:"the row after; null on a delete"`
	Later   []string        `json:"later" jsonschema:"later mutations of the same row, oldest first"`
	Current bool            `json:"current" jsonschema:"the row is as this mutation left it: it can be reverted without cascade"`
}

// Reverted is what revert_mutation did.
type Reverted struct {
	Reverted  string          `json:"reverted" jsonschema:"the mutation that was undone"`
	Mutations []string        `json:"mutations" jsonschema:"the mutation that undid it; it can be reverted itself"`
	Table     string          `json:"table"`
	Key       string          `json:"key"`
	Now       json.RawMessage `json:"now" jsonschema:"the row as it is now; null when it does not exist any more"`
	At        time.Time       `json:"at"`
}

// Journal are the tools of the time machine.
func Journal(d Data) []registry.Tool {
	reads := registry.Effects{Reads: []string{"journal"}}
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "list_mutations", Group: registry.ReadMeta,
			Summary:     "List what was changed, newest first",
			Description: "Every insert, update and delete on the owner's tables, with who, when and why. Narrow it by table, row, connection or time.",
			Effects:     reads, Compact: []string{"id", "action", "table", "key", "actor"}, Core: true}, d.listMutations),
		registry.Define(registry.Spec{Name: "get_mutation", Group: registry.ReadMeta,
			Summary:     "One change with the row before and after",
			Description: "Says too whether it can be reverted as it is, or which later changes stand in the way.",
			Effects:     reads, Core: true}, d.getMutation),
		registry.Define(registry.Spec{Name: "revert_mutation", Group: registry.System,
			Summary:     "Undo one change; the owner is always asked",
			Description: "Writes the row as it was before. The revert is a mutation itself and can be reverted. When the row was changed again since, it is refused with the changes that stand in the way.",
			Effects:     registry.Effects{Reads: []string{"journal"}, Writes: []string{"the table of the mutation"}, Elevated: true}, Destructive: true, Core: true}, d.revertMutation, d.previewRevert),
	}
}

type listMutationsIn struct {
	Table      string     `json:"table,omitempty"`
	Key        string     `json:"key,omitempty" jsonschema:"of a row, with table"`
	Connection string     `json:"connection,omitempty" jsonschema:"only by this connection, conn-…"`
	Mine       bool       `json:"mine,omitempty" jsonschema:"only by this connection"`
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty" jsonschema:"exclusive"`
	Reverts    bool       `json:"reverts,omitempty" jsonschema:"only those that undo another"`
	Paging
}

func (d Data) listMutations(ctx context.Context, c *registry.Call, in listMutationsIn) (registry.Page[MutationRow], error) {
	paging := in.Paging
	in.Paging = Paging{}
	out := registry.Page[MutationRow]{Items: []MutationRow{}}
	if in.Key != "" && in.Table == "" {
		return out, problem.New("table_missing", "key needs table too").WithHint("Give both, e.g. table facts, key fact-….")
	}
	q := store.MutationQuery{Table: in.Table, Key: in.Key, Connection: in.Connection, Reverts: in.Reverts, Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in)}
	if in.Mine {
		q.Connection = c.Authority.Connection
	}
	if in.Since != nil {
		q.Since = *in.Since
	}
	if in.Until != nil {
		q.Until = *in.Until
	}
	r := d.view(ctx, c)
	defer r.Close()
	page, err := r.Mutations(q)
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, e := range page.Items {
		out.Items = append(out.Items, d.mutationRow(&e))
	}
	return out, err
}

func (d Data) mutationRow(e *store.Entry) MutationRow {
	row := MutationRow{ID: d.DB.ID(e.Seq), Action: "update", Table: e.Table, Key: e.Key, Actor: e.Actor.Name, Connection: e.Actor.Connection,
		At: e.At, Reason: e.Reason, Tool: e.Tool, Call: e.Call}
	switch {
	case e.Before == nil:
		row.Action = "insert"
	case e.After == nil:
		row.Action = "delete"
	}
	if e.Reverts != 0 {
		row.Reverts = d.DB.ID(e.Reverts)
	}
	return row
}

type mutationIn struct {
	ID string `json:"id" jsonschema:"mut-…" min:"1"`
}

func (d Data) getMutation(ctx context.Context, c *registry.Call, in mutationIn) (Mutation, error) {
	r := d.view(ctx, c)
	defer r.Close()
	e, err := d.entry(r, in.ID)
	if err != nil {
		return Mutation{}, err
	}
	out := Mutation{MutationRow: d.mutationRow(&e), Before: orNull(e.Before), After: orNull(e.After), Later: []string{}}
	later, current, err := r.Later(&e)
	for _, l := range later {
		out.Later = append(out.Later, d.DB.ID(l.Seq))
	}
	out.Current = current
	return out, err
}

func (d Data) entry(r *store.Reader, id string) (store.Entry, error) {
	seq, err := d.DB.Seq(id)
	if err != nil {
		return store.Entry{}, err
	}
	return r.Entry(seq)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

type revertMutationIn struct {
	ID      string `json:"id" jsonschema:"mut-…" min:"1"`
	Cascade bool   `json:"cascade,omitempty" jsonschema:"also undo later changes of the same row, by writing the older state over them"`
	Reason  string `json:"reason,omitempty" jsonschema:"why, for the journal" max:"500"`
}

func (d Data) revert(in revertMutationIn) (func(*store.Tx) error, error) {
	seq, err := d.DB.Seq(in.ID)
	return func(tx *store.Tx) error { return tx.Revert(seq, in.Cascade) }, err
}

func (d Data) revertMutation(ctx context.Context, c *registry.Call, in revertMutationIn) (Reverted, error) {
	f, err := d.revert(in)
	if err != nil {
		return Reverted{}, err
	}
	rec, err := d.Write.Write(ctx, because(c, in.Reason), f)
	if err != nil {
		return Reverted{}, err
	}
	r := d.view(ctx, c)
	defer r.Close()
	e, err := d.entry(r, in.ID)
	return Reverted{Reverted: in.ID, Mutations: rec.Mutations, Table: e.Table, Key: e.Key, Now: orNull(e.Before), At: rec.At}, err
}

func (d Data) previewRevert(ctx context.Context, c *registry.Call, in revertMutationIn) ([]messages.Change, error) {
	f, err := d.revert(in)
	if err != nil {
		return nil, err
	}
	return d.DB.Preview(ctx, because(c, in.Reason), f)
}
