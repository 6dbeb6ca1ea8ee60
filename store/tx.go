package store

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"time"
	"unicode/utf8"

	"sophia/messages"
	"sophia/messages/problem"
)

// Cause is why a write happens; the journal keeps it. The zero Scope may write
// nothing.
type Cause struct {
	Actor  messages.Actor // the connection, and its name as it is now
	Scope  Scope          // rows outside it can't be written
	Reason string         // free text, optional
	Call   string         // the call that caused it, call-…
	Tool   string         // canonical name, optional
	// Expect is what a preview of this write has shown and the owner approved; the
	// write is refused with approval_outdated when it would do anything else. nil:
	// nothing was approved.
	Expect []messages.Change
}

// System is a cause for the daemon's own work.
func System(name, reason string) Cause {
	return Cause{Actor: messages.Actor{Connection: "system", Name: name}, Scope: Owner(), Reason: reason}
}

// Tx is one write under way: all of it is committed or nothing. It reads what
// it wrote. It is valid only within the function that it was given to, and not
// for use by several goroutines.
type Tx struct {
	ctx     context.Context
	db      *DB
	view    view
	cause   Cause
	now     time.Time
	head    head // as it would be after this write
	entries []Entry
	touched map[uint16]bool
	tails   map[string]*tail
	undo    []func()
	dry     bool
	size    int // about what the batch has so far, in bytes
	system  int // >0 within a hook: dependents are written whatever the scope
	reverts uint64

	lastText  string
	lastTerms []string
}

func (tx *Tx) source() (*view, Scope) {
	if tx.system > 0 {
		return &tx.view, Owner()
	}
	return &tx.view, tx.cause.Scope
}

// Now is the server time of this write. All its rows and journal entries share it.
func (tx *Tx) Now() time.Time { return tx.now }

// Context ends when the one who asked for the write went away.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Cause is why this write happens.
func (tx *Tx) Cause() Cause { return tx.cause }

// DryRun says that the write will not be committed: it is a preview.
func (tx *Tx) DryRun() bool { return tx.dry }

// Effect does something outside the store that belongs to this write, such as
// replacing a file, just before it is committed. undo is called when the
// commit fails. In a preview nothing is done.
func (tx *Tx) Effect(do func() (undo func(), err error)) error {
	if tx.dry {
		return nil
	}
	undo, err := do()
	if err == nil && undo != nil {
		tx.undo = append(tx.undo, undo)
	}
	return err
}

// As runs f with the owner's scope: for rows that the daemon keeps about a
// connection (read marks, rejections), which no connection may write by itself.
func (tx *Tx) As(f func() error) error {
	tx.system++
	defer func() { tx.system-- }()
	return f()
}

// Put inserts a row, or replaces the one with its key.
func (t *Table[R]) Put(tx *Tx, row R) error { return t.put(tx, row, anyway) }

// Insert is Put that refuses an existing key with the code already_exists.
func (t *Table[R]) Insert(tx *Tx, row R) error { return t.put(tx, row, mustNotExist) }

// Update is Put that refuses a missing key with the code not_found.
func (t *Table[R]) Update(tx *Tx, row R) error { return t.put(tx, row, mustExist) }

// maxKey is the longest key of a row in bytes: an engine's keys are limited.
const maxKey = 4096

type expectation int

const (
	anyway expectation = iota
	mustNotExist
	mustExist
)

func (t *Table[R]) put(tx *Tx, row R, want expectation) error {
	if t.spec.Check != nil {
		if err := t.spec.Check(&row); err != nil {
			return err
		}
	}
	raw, err := marshal(row)
	if err != nil {
		return err
	}
	key := t.spec.Key(&row)
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return problem.New("key_invalid", "%q can't be the key of a %s", key, t.spec.Noun).
			WithHint("Use 1 to %d bytes of valid text.", maxKey)
	}
	before, err := tx.current(t.def, key)
	switch {
	case err != nil:
		return err
	case before == nil && want == mustExist:
		return t.NotFound(key)
	case before != nil && want == mustNotExist:
		return problem.New("already_exists", "there is a %s %q already", t.spec.Noun, key)
	}
	return t.change(tx, key, before, raw)
}

// Delete removes a row. The error's code is not_found when there is none.
func (t *Table[R]) Delete(tx *Tx, key string) error {
	before, err := tx.current(t.def, key)
	if err != nil {
		return err
	}
	if before == nil {
		return t.NotFound(key)
	}
	return t.change(tx, key, before, nil)
}

// current is the row to be written over. One outside the scope may not be
// written; the error does not tell it from a key that can't be had.
func (tx *Tx) current(d *Def, key string) (json.RawMessage, error) {
	val, ok, err := tx.view.get(rowKey(d.id, key))
	if err != nil || !ok {
		return nil, err
	}
	partition, raw, err := unpackRow(d.name, val)
	if err != nil {
		return nil, err
	}
	if _, scope := tx.source(); !scope.sees(partition) {
		return nil, d.notFound(key)
	}
	return raw, nil
}

// change is the one place where a row changes: row, index entries, counts,
// search postings, journal entry, dependents.
func (t *Table[R]) change(tx *Tx, key string, beforeRaw, afterRaw json.RawMessage) error {
	d := t.def
	if tx.db.defs[d.id] != d {
		return problem.New("table_unknown", "the table %s does not belong to this store", d.name)
	}
	if bytes.Equal(beforeRaw, afterRaw) {
		return nil
	}
	before, err := decode[R](beforeRaw)
	if err != nil {
		return err
	}
	after, err := decode[R](afterRaw)
	if err != nil {
		return err
	}
	hook := tx.db.hooks[d.id]
	if d.hooked && hook == nil {
		return problem.New("table_not_attached", "%s can't be written before what depends on it is attached", d.name)
	}
	e := Entry{Table: d.name, Key: key, Before: beforeRaw, After: afterRaw, Reverts: tx.reverts}
	if before != nil {
		e.Partitions[0] = t.partition(before)
	}
	if after != nil {
		e.Partitions[1] = t.partition(after)
		if _, scope := tx.source(); !scope.sees(e.Partitions[1]) {
			return problem.New("outside_scope", "this connection may not write such a %s: it would be outside its scope", d.noun).
				WithHint("Name an entity of this connection's scope.")
		}
	}
	if err := t.reindex(tx, key, before, e.Partitions[0], after, e.Partitions[1]); err != nil {
		return err
	}
	row := rowKey(d.id, key)
	if after == nil {
		tx.set(row, nil)
	} else {
		tx.set(row, packRow(e.Partitions[1], afterRaw))
	}
	tx.head.count(d.id, before != nil, after != nil)
	tx.touched[d.id] = true
	if !d.derived {
		tx.entries = append(tx.entries, e)
	}
	if hook == nil {
		return nil
	}
	return tx.As(func() error { return hook(tx, before, after) })
}

func (t *Table[R]) reindex(tx *Tx, key string, before *R, was string, after *R, is string) error {
	d := t.def
	old := map[string]bool{}
	for _, k := range t.indexKeys(key, before) {
		old[string(k)] = true
	}
	val := packRow(is, []byte(key))
	if after != nil {
		for i, ix := range t.spec.Indexes {
			if !ix.Unique {
				continue
			}
			for _, tuple := range ix.Values(after) {
				if err := tx.unique(d, ix.Name, tuple.append(indexPrefix(d.id, i)), key); err != nil {
					return err
				}
			}
		}
		for _, k := range t.indexKeys(key, after) {
			if old[string(k)] {
				delete(old, string(k))
				if was == is {
					continue
				}
			}
			tx.set(k, val)
		}
	}
	for k := range old {
		tx.set([]byte(k), nil)
	}
	var wasCounted, isCounted []string
	if before != nil {
		wasCounted = t.tallyValues(before)
	}
	if after != nil {
		isCounted = t.tallyValues(after)
	}
	if err := tx.recount(d.id, wasCounted, was, isCounted, is); err != nil {
		return err
	}
	if t.spec.Text == nil {
		return nil
	}
	var oldText, newText string
	if before != nil {
		oldText = t.spec.Text(before)
	}
	if after != nil {
		newText = t.spec.Text(after)
	}
	return tx.reindexText(d.id, key, before != nil, was, oldText, after != nil, is, newText)
}

func (tx *Tx) unique(d *Def, index string, prefix []byte, key string) error {
	taken := false
	err := tx.view.scanPrefix(prefix, false, func(k, _ []byte) bool {
		taken = string(k[len(prefix):]) != key
		return !taken
	})
	if err == nil && taken {
		err = problem.New("already_exists", "another %s has the same %s", d.noun, index)
	}
	return err
}

func (tx *Tx) set(key, value []byte) {
	tx.view.over.Set(string(key), value)
	tx.size += len(key) + len(value) + 32
}

// head is the store's state besides its rows; it is written with every commit.
type head struct {
	Seq  uint64           `json:"seq"`  // of the last journal entry
	Hash []byte           `json:"hash"` // of the last journal entry
	Ord  uint32           `json:"ord"`  // the next ordinal of an indexed row
	Rows map[uint16]int64 `json:"rows"` // by table
}

func (h head) clone() head {
	h.Rows = maps.Clone(h.Rows)
	return h
}

func (h *head) count(table uint16, was, is bool) {
	switch {
	case !was && is:
		h.Rows[table]++
	case was && !is:
		h.Rows[table]--
	}
}

// marshal is JSON as it is stored: text stays readable.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
