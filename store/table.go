package store

import (
	"encoding/json"
	"fmt"

	"sophia/messages/problem"
)

// Spec declares a table. ID, the order of Indexes and Name are part of what is
// on disk and must not change.
type Spec[R any] struct {
	ID   uint16
	Name string
	Noun string // what one row is called in error texts: "document"
	Key  func(*R) string
	// Visible says for whom a row exists; nil: for the owner alone, no
	// connection sees the table, not in the journal either.
	Visible func(*R) Visibility
	Indexes []Index[R]
	// Tallies are what rows are counted by, besides all together; see Count.
	Tallies []Tally[R]
	// Text is what full-text search finds a row by; nil: not searched.
	Text func(*R) string
	// Derived tables can be rebuilt from what they were made of, so they are
	// not journaled.
	Derived bool
	// Hooked tables have more to a change than the row: they can be written
	// only when a hook is attached (see Attach).
	Hooked bool
	// Check refuses a row that must not be stored.
	Check func(*R) error
}

// Index is a way to find rows. Values gives the index keys of a row: usually
// one, none to leave the row out.
type Index[R any] struct {
	Name   string
	Values func(*R) []Tuple
	Unique bool
	// Split keeps it once more by partition, so that the first rows of a scope are
	// found without going over those of others; see Top.
	Split bool
}

// One is the common index: one tuple a row.
func One[R any](name string, values func(*R) Tuple) Index[R] {
	return Index[R]{Name: name, Values: func(r *R) []Tuple { return []Tuple{values(r)} }}
}

// Split is an index that is kept by partition too.
func Split[R any](ix Index[R]) Index[R] {
	ix.Split = true
	return ix
}

// Table is a declared table. It is immutable and may be shared.
type Table[R any] struct {
	spec Spec[R]
	def  *Def
}

// Def is a table without its row type.
type Def struct {
	id        uint16
	name      string
	noun      string
	derived   bool
	hooked    bool
	searched  bool
	ownerOnly bool
	change    func(tx *Tx, key string, before, after json.RawMessage) error
	indexKeys func(key string, row json.RawMessage) ([][]byte, error)
	partition func(row json.RawMessage) (string, error)
	kept      []string // tallies, and split indexes: what is made anew when it is another
	tally     func(row json.RawMessage) ([]string, error)
	text      func(row json.RawMessage) (string, error)
}

// Name is the table's name in the journal.
func (d *Def) Name() string { return d.name }

// Define makes a table from its declaration. A wrong one is a programming
// error and panics.
func Define[R any](s Spec[R]) *Table[R] {
	if s.ID == 0 || s.Name == "" || s.Key == nil || s.Noun == "" || len(s.Indexes) > splitIndex || len(s.Tallies) > 254 {
		panic(fmt.Sprintf("store: table %q is not declared completely", s.Name))
	}
	t := &Table[R]{spec: s}
	t.def = &Def{
		id: s.ID, name: s.Name, noun: s.Noun, derived: s.Derived, hooked: s.Hooked,
		searched: s.Text != nil, ownerOnly: s.Visible == nil,
		change: func(tx *Tx, key string, before, after json.RawMessage) error {
			return t.change(tx, key, before, after)
		},
		indexKeys: func(key string, raw json.RawMessage) ([][]byte, error) {
			r, err := decode[R](raw)
			if err != nil {
				return nil, err
			}
			return t.indexKeys(key, r), nil
		},
		partition: func(raw json.RawMessage) (string, error) {
			r, err := decode[R](raw)
			if err != nil {
				return "", err
			}
			return t.partition(r), nil
		},
		text: func(raw json.RawMessage) (string, error) {
			r, err := decode[R](raw)
			if err != nil {
				return "", err
			}
			return s.Text(r), nil
		},
	}
	t.def.tally = t.tallyOf
	for _, y := range s.Tallies {
		t.def.kept = append(t.def.kept, y.Name)
	}
	for _, ix := range s.Indexes {
		if ix.Split {
			t.def.kept = append(t.def.kept, "/"+ix.Name)
		}
	}
	return t
}

// Def is the table without its row type, for Options.Tables.
func (t *Table[R]) Def() *Def { return t.def }

// Name is the table's name in the journal.
func (t *Table[R]) Name() string { return t.spec.Name }

func decode[R any](raw json.RawMessage) (*R, error) {
	if raw == nil {
		return nil, nil
	}
	r := new(R)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	return r, nil
}

func (t *Table[R]) partition(r *R) string {
	if t.spec.Visible == nil {
		return partitionOwner
	}
	return t.spec.Visible(r).partition()
}

func (t *Table[R]) indexKeys(key string, r *R) [][]byte {
	if r == nil {
		return nil
	}
	var out [][]byte
	for i, ix := range t.spec.Indexes {
		for _, v := range ix.Values(r) {
			out = append(out, append(v.append(indexPrefix(t.spec.ID, i)), key...))
			if ix.Split {
				out = append(out, append(v.append(splitPrefix(t.spec.ID, i, t.partition(r))), key...))
			}
		}
	}
	return out
}

func (t *Table[R]) index(name string) (int, error) {
	for i, ix := range t.spec.Indexes {
		if ix.Name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("store: table %s has no index %q", t.spec.Name, name)
}

// NotFound is the error for a row that isn't there or isn't the caller's: the
// two look the same.
func (t *Table[R]) NotFound(key string) error { return t.def.notFound(key) }

func (d *Def) notFound(key string) error {
	return problem.New("not_found", "there is no %s %q", d.noun, key).
		WithHint("List what there is; it may also be outside this connection's scope.")
}

// packRow puts the partition before the row, so that scope is checked without
// decoding it.
func packRow(partition string, raw json.RawMessage) []byte {
	return append(appendString(make([]byte, 0, len(partition)+2+len(raw)), partition), raw...)
}

func unpackRow(table string, v []byte) (partition string, raw json.RawMessage, err error) {
	partition, raw, ok := cutString(v)
	if !ok {
		return "", nil, problem.New("store_damaged", "a row of %s can't be read", table).WithHint("Run: sophia doctor --full")
	}
	return partition, raw, nil
}
