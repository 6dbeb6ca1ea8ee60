package tools

import (
	"context"
	"slices"
	"strings"
	"time"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/evidence"
	"sophia/store/tables"
)

// FactRow is a fact as it is shown.
type FactRow struct {
	ID         string     `json:"id"`
	Entity     string     `json:"entity"`
	Predicate  string     `json:"predicate"`
	Object     string     `json:"object"`
	ValidFrom  *time.Time `json:"valid_from,omitempty"`
	ValidTo    *time.Time `json:"valid_to,omitempty"`
	Recorded   time.Time  `json:"recorded"`
	Quote      string     `json:"quote,omitempty" jsonschema:"verbatim words of the source that carry it"`
	Source     string     `json:"source,omitempty" jsonschema:"doc-…"`
	Offset     *int       `json:"offset,omitempty" jsonschema:"byte offset of the quote in the source's text"`
	Trust      string     `json:"trust" enum:"asserted,grounded,owner"`
	Observer   string     `json:"observer"`
	Status     string     `json:"status" enum:"active,superseded,retracted"`
	Supersedes string     `json:"supersedes,omitempty"`
}

// Written is what a write returns: the mutations that get_mutation and
// revert_mutation take.
type Written struct {
	ID        string    `json:"id" jsonschema:"of the row"`
	Mutations []string  `json:"mutations" jsonschema:"mut-…, empty when nothing changed"`
	At        time.Time `json:"at"`
}

// Knowledge are the tools of read_knowledge and mutate_knowledge.
func Knowledge(d Data) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "query_knowledge", Group: registry.ReadKnowledge,
			Summary:     "List facts by entity, predicate, time or words",
			Description: "A fact is a dated observation: entity, predicate, object. Active ones by default. Facts from words alone: give query.",
			Effects:     registry.Effects{Reads: []string{"facts"}}, Compact: []string{"id", "entity", "predicate", "object", "trust"}, Core: true}, d.queryKnowledge),
		registry.Define(registry.Spec{Name: "remember_fact", Group: registry.MutateKnowledge,
			Summary:     "Record a fact; the owner is always asked",
			Description: "Give source and a verbatim quote of it where there is one: the fact is then grounded. A quote that is not in the source is refused. To correct a fact, name it in supersedes.",
			Effects:     registry.Effects{Reads: []string{"documents"}, Writes: []string{"facts"}, Elevated: true}, Core: true}, d.rememberFact, d.previewFact),
		registry.Define(registry.Spec{Name: "record_observation", Group: registry.MutateKnowledge,
			Summary:     "Note something that you noticed about an entity",
			Description: "Free text, for what is worth knowing later but is no fact yet. Use remember_fact for a fact.",
			Effects:     registry.Effects{Writes: []string{"observations"}}, Core: true}, d.recordObservation, d.previewObservation),
	}
}

type queryKnowledgeIn struct {
	Entity    string     `json:"entity,omitempty"`
	Predicate string     `json:"predicate,omitempty"`
	Query     string     `json:"query,omitempty" jsonschema:"words to look for; best first then" max:"1000"`
	Status    string     `json:"status,omitempty" enum:"active,superseded,retracted,any" default:"active"`
	AsOf      *time.Time `json:"as_of,omitempty" jsonschema:"only what was valid at this time"`
	Paging
}

func (d Data) queryKnowledge(ctx context.Context, c *registry.Call, in queryKnowledgeIn) (registry.Page[FactRow], error) {
	paging := in.Paging
	in.Paging = Paging{}
	out := registry.Page[FactRow]{Items: []FactRow{}}
	r := d.view(ctx, c)
	defer r.Close()
	match := func(f *tables.Fact) bool {
		return (in.Entity == "" || f.Entity == in.Entity) && (in.Predicate == "" || f.Predicate == in.Predicate) &&
			(in.Status == "any" || f.Status == in.Status) &&
			(in.AsOf == nil || (f.ValidFrom == nil || !f.ValidFrom.After(*in.AsOf)) && (f.ValidTo == nil || f.ValidTo.After(*in.AsOf)))
	}
	if strings.TrimSpace(in.Query) != "" {
		found, err := r.Search(store.SearchQuery{Text: in.Query, Tables: defs(tables.Facts.Def()), Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in),
			Accept: func(_ *store.Def, key string) bool {
				f, err := tables.Facts.Get(r, key)
				return err == nil && match(&f)
			}})
		out.Total, out.Cursor = found.Total, found.Cursor
		for _, h := range found.Hits {
			f, err := tables.Facts.Get(r, h.Key)
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, FactRow(f))
		}
		return out, err
	}
	q := store.Query[tables.Fact]{Index: "recorded", Reverse: true, Where: match, Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in)}
	switch {
	case in.Entity != "" && in.Predicate != "":
		q.Index, q.Prefix = "entity", store.Tuple{in.Entity, in.Predicate}
	case in.Entity != "":
		q.Index, q.Prefix = "entity", store.Tuple{in.Entity}
	case in.Predicate != "":
		q.Index, q.Prefix = "predicate", store.Tuple{in.Predicate}
	}
	page, err := tables.Facts.List(r, q)
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, f := range page.Items {
		out.Items = append(out.Items, FactRow(f))
	}
	return out, err
}

type rememberFactIn struct {
	Entity     string     `json:"entity" jsonschema:"what it is about, an entity id" min:"1" max:"200"`
	Predicate  string     `json:"predicate" jsonschema:"lower_snake_case, e.g. works_at" min:"1" max:"200"`
	Object     string     `json:"object" min:"1" max:"2000"`
	ValidFrom  *time.Time `json:"valid_from,omitempty"`
	ValidTo    *time.Time `json:"valid_to,omitempty" jsonschema:"exclusive"`
	Source     string     `json:"source,omitempty" jsonschema:"doc-… that it is from"`
	Quote      string     `json:"quote,omitempty" jsonschema:"verbatim words of the source, at most 300 characters"`
	Supersedes string     `json:"supersedes,omitempty" jsonschema:"fact-… that it replaces"`
	Reason     string     `json:"reason,omitempty" jsonschema:"why, for the journal" max:"500"`
}

// fact makes the write of a call. A quote that does not hold is refused, and
// the refusal is kept.
func (d Data) fact(ctx context.Context, c *registry.Call, in rememberFactIn) (string, func(*store.Tx) error, error) {
	f := tables.Fact{ID: newID(c, "fact-"), Entity: in.Entity, Predicate: in.Predicate, Object: in.Object, ValidFrom: in.ValidFrom, ValidTo: in.ValidTo,
		Source: in.Source, Quote: in.Quote, Supersedes: in.Supersedes, Observer: c.Authority.Name, Trust: tables.TrustAsserted, Status: tables.FactActive}
	switch {
	case in.ValidFrom != nil && in.ValidTo != nil && !in.ValidFrom.Before(*in.ValidTo):
		return "", nil, problem.New("validity_empty", "valid_to must be after valid_from")
	case c.Authority.Profile == messages.Portal:
		f.Trust = tables.TrustOwner
	}
	r := d.view(ctx, c)
	defer r.Close()
	if in.Source != "" {
		if _, err := tables.Documents.Get(r, in.Source); err != nil {
			return "", nil, err
		}
	}
	if in.Quote != "" {
		if in.Source == "" {
			return "", nil, problem.New("source_missing", "a quote needs the document that it is from").WithHint("Give source, doc-….")
		}
		at, err := d.ground(ctx, c, r, in.Source, in.Quote, in.Entity)
		if err != nil {
			return "", nil, err
		}
		f.Offset = &at
		if f.Trust == tables.TrustAsserted {
			f.Trust = tables.TrustGrounded
		}
	}
	return f.ID, func(tx *store.Tx) error {
		f := f
		f.Recorded = tx.Now()
		if in.Supersedes != "" {
			old, err := tables.Facts.Get(tx, in.Supersedes)
			if err != nil {
				return err
			}
			if old.Status != tables.FactActive {
				return problem.New("fact_not_active", "%s is %s already", old.ID, old.Status).WithHint("Name the active fact; query_knowledge lists it.")
			}
			old.Status = tables.FactSuperseded
			if err := tables.Facts.Update(tx, old); err != nil {
				return err
			}
		}
		same, err := tables.Facts.All(tx, store.Query[tables.Fact]{Index: "entity", Prefix: store.Tuple{f.Entity, f.Predicate}, Where: func(x *tables.Fact) bool {
			return x.Status == tables.FactActive && x.Object == f.Object && equalTime(x.ValidFrom, f.ValidFrom) && equalTime(x.ValidTo, f.ValidTo)
		}})
		if err != nil {
			return err
		}
		if len(same) > 0 {
			return problem.New("already_exists", "%s says the same", same[0].ID).WithHint("Nothing needs to be done; or name it in supersedes to replace it.")
		}
		return tables.Facts.Insert(tx, f)
	}, nil
}

func equalTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// ground returns where a quote is in its source. One that is not there is kept
// as a rejection.
func (d Data) ground(ctx context.Context, c *registry.Call, r *store.Reader, source, quote, entity string) (int, error) {
	doc, text, err := d.document(r, source)
	if err != nil {
		return 0, err
	}
	at, _, err := evidence.Check(text, quote)
	if err == nil {
		return at, nil
	}
	kept := tables.Rejection{ID: newID(c, "rej-"), Document: doc.ID, Quote: shorten(quote, 400), Code: problem.CodeOf(err), Observer: c.Authority.Connection, Entity: entity}
	cause := because(c, "a quote that is not in its source")
	cause.Expect = nil // it is no part of what was asked for
	if _, werr := d.Write.Write(ctx, cause, func(tx *store.Tx) error {
		row := kept
		row.At = tx.Now()
		return tx.As(func() error { return tables.Rejections.Put(tx, row) })
	}); werr != nil {
		return 0, werr
	}
	return 0, err
}

func (d Data) rememberFact(ctx context.Context, c *registry.Call, in rememberFactIn) (Written, error) {
	id, f, err := d.fact(ctx, c, in)
	if err != nil {
		return Written{}, err
	}
	rec, err := d.Write.Write(ctx, because(c, in.Reason), f)
	return Written{ID: id, Mutations: slices.Clip(rec.Mutations), At: rec.At}, err
}

func (d Data) previewFact(ctx context.Context, c *registry.Call, in rememberFactIn) ([]messages.Change, error) {
	_, f, err := d.fact(ctx, c, in)
	if err != nil {
		return nil, err
	}
	return d.DB.Preview(ctx, because(c, in.Reason), f)
}

type recordObservationIn struct {
	Entity string `json:"entity,omitempty" jsonschema:"what it is about, an entity id" max:"200"`
	Text   string `json:"text" min:"1" max:"10000"`
	Source string `json:"source,omitempty" jsonschema:"doc-…, a URL, or where it is from" max:"1000"`
	Reason string `json:"reason,omitempty" jsonschema:"why, for the journal" max:"500"`
}

func observation(c *registry.Call, in recordObservationIn) (string, func(*store.Tx) error) {
	id := newID(c, "obs-")
	return id, func(tx *store.Tx) error {
		return tables.Observations.Insert(tx, tables.Observation{ID: id, Entity: in.Entity, Text: in.Text, Source: in.Source,
			Observer: c.Authority.Name, Recorded: tx.Now()})
	}
}

func (d Data) recordObservation(ctx context.Context, c *registry.Call, in recordObservationIn) (Written, error) {
	id, f := observation(c, in)
	rec, err := d.Write.Write(ctx, because(c, in.Reason), f)
	return Written{ID: id, Mutations: rec.Mutations, At: rec.At}, err
}

func (d Data) previewObservation(ctx context.Context, c *registry.Call, in recordObservationIn) ([]messages.Change, error) {
	_, f := observation(c, in)
	return d.DB.Preview(ctx, because(c, in.Reason), f)
}
