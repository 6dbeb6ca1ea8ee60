package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync/atomic"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

// Entry is one change of one row, as the journal keeps it. Entries are never
// changed or removed. Each is chained to the one before by its hash:
// SHA-256(hash before ‖ the entry's JSON).
type Entry struct {
	Seq        uint64          `json:"seq"`   // 1, 2, 3, … without gaps
	Write      uint64          `json:"write"` // Seq of the first entry of the same Write
	Table      string          `json:"table"`
	Key        string          `json:"key"`
	Before     json.RawMessage `json:"before"` // null on insert
	After      json.RawMessage `json:"after"`  // null on delete
	Actor      messages.Actor  `json:"actor"`  // the name is as it was then
	At         time.Time       `json:"at"`     // server time
	Reason     string          `json:"reason,omitempty"`
	Call       string          `json:"call,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	Reverts    uint64          `json:"reverts,omitempty"` // Seq of the entry that this one undoes
	Partitions [2]string       `json:"partitions"`        // for whom before and after exist
}

// MutationPrefix begins the identifiers of journal entries.
const MutationPrefix = "mut-"

// ID is the entry's identifier for people and agents. It does not tell how
// many entries there are.
func (db *DB) ID(seq uint64) string { return db.seal.ID(MutationPrefix, seq) }

// Seq undoes ID. The error's code is not_found.
func (db *DB) Seq(id string) (uint64, error) {
	if n, ok := db.seal.Number(MutationPrefix, id); ok {
		return n, nil
	}
	return 0, mutationNotFound(id)
}

func mutationNotFound(id string) error {
	return problem.New("not_found", "there is no mutation %q", id).
		WithHint("List them with sophia.list_mutations; it may also be outside this connection's scope.")
}

func chain(before []byte, entry []byte) []byte {
	h := sha256.New()
	h.Write(before)
	h.Write(entry)
	return h.Sum(nil)
}

// journal gives the write's entries their numbers and lays them down.
func (tx *Tx) journal() error {
	if len(tx.entries) == 0 {
		return nil
	}
	first := tx.head.Seq + 1
	for i := range tx.entries {
		e := &tx.entries[i]
		tx.head.Seq++
		e.Seq, e.Write, e.At = tx.head.Seq, first, tx.now
		e.Actor, e.Reason, e.Call, e.Tool = tx.cause.Actor, tx.cause.Reason, tx.cause.Call, tx.cause.Tool
		raw, err := marshal(e)
		if err != nil {
			return err
		}
		tx.head.Hash = chain(tx.head.Hash, raw)
		tx.set(journalKey(e.Seq), append(append(make([]byte, 0, len(tx.head.Hash)+len(raw)), tx.head.Hash...), raw...))
		d := tx.db.byName[e.Table]
		tx.set(binary.BigEndian.AppendUint64(historyPrefix(d.id, e.Key), e.Seq), []byte{})
		tx.set(binary.BigEndian.AppendUint64(byActorPrefix(e.Actor.Connection), e.Seq), []byte{})
	}
	return nil
}

// readEntry takes a journal value apart.
func readEntry(v []byte) (hash []byte, raw []byte, e Entry, err error) {
	if len(v) < sha256.Size {
		return nil, nil, e, problem.New("store_damaged", "a journal entry can't be read").WithHint("Run: sophia doctor --full")
	}
	hash, raw = v[:sha256.Size], v[sha256.Size:]
	err = json.Unmarshal(raw, &e)
	if string(e.Before) == "null" {
		e.Before = nil
	}
	if string(e.After) == "null" {
		e.After = nil
	}
	return hash, raw, e, err
}

// sees: an entry exists for those for whom the row existed before and after.
func (s Scope) seesEntry(e *Entry) bool {
	return (e.Before == nil || s.sees(e.Partitions[0])) && (e.After == nil || s.sees(e.Partitions[1]))
}

// Entry returns the journal entry of a number. The error's code is not_found
// when there is none for this scope.
func (r *Reader) Entry(seq uint64) (Entry, error) {
	v, ok, err := r.view.get(journalKey(seq))
	if err != nil {
		return Entry{}, err
	}
	if ok {
		_, _, e, err := readEntry(v)
		if err != nil {
			return Entry{}, err
		}
		if r.scope.seesEntry(&e) {
			return e, nil
		}
	}
	return Entry{}, mutationNotFound(r.db.ID(seq))
}

// RecentEntry is an entry as Recent gives it.
type RecentEntry struct {
	Entry
	Entity string // the row's field of that name: whom the change was about

	size int // bytes in the journal
}

// decodedEntries keeps the last entries as they were decoded: the same few are
// looked at again and again, and entries never change.
type decodedEntries [256]atomic.Pointer[RecentEntry]

// maxDecoded is the largest entry that is kept, in bytes.
const maxDecoded = 8 << 10

// recent is an entry of the journal, kept or read.
func (r *Reader) recent(seq uint64) (*RecentEntry, error) {
	slot := &r.db.decoded[seq%uint64(len(r.db.decoded))]
	if e := slot.Load(); e != nil && e.Seq == seq {
		return e, nil
	}
	v, ok, err := r.view.get(journalKey(seq))
	if err != nil || !ok {
		return nil, cmp.Or(err, damaged("journal entry %d is missing", seq))
	}
	e := &RecentEntry{size: len(v)}
	if _, _, e.Entry, err = readEntry(v); err != nil {
		return nil, err
	}
	row := e.After
	if row == nil {
		row = e.Before
	}
	var about struct{ Entity string }
	if json.Unmarshal(row, &about) == nil { // not every row has it
		e.Entity = about.Entity
	}
	if e.size <= maxDecoded {
		slot.Store(e)
	}
	return e, nil
}

// Recent are the visible ones among the last entries of the journal, newest
// first. It looks at so many entries and bytes of them at most, however long the
// journal is. The entries are shared: do not change them.
func (r *Reader) Recent(entries, bytes int) ([]*RecentEntry, error) {
	h, err := r.head()
	if err != nil {
		return nil, err
	}
	var out []*RecentEntry
	for seq := h.Seq; seq > 0 && entries > 0; seq, entries = seq-1, entries-1 {
		e, err := r.recent(seq)
		if err != nil {
			return out, err
		}
		if bytes -= e.size; bytes < 0 {
			break
		}
		if r.scope.seesEntry(&e.Entry) {
			out = append(out, e)
		}
	}
	return out, nil
}

// MutationQuery selects journal entries, newest first. Empty fields select all.
type MutationQuery struct {
	Connection string
	Table      string
	Key        string // with Table
	Since      time.Time
	Until      time.Time // exclusive
	Call       string
	Reverts    bool // only those that undo another
	Limit      int
	Cursor     string
	Bind       string
}

func (q *MutationQuery) match(e *Entry) bool {
	return (q.Connection == "" || e.Actor.Connection == q.Connection) &&
		(q.Table == "" || e.Table == q.Table) && (q.Key == "" || e.Key == q.Key) &&
		(q.Since.IsZero() || !e.At.Before(q.Since)) && (q.Until.IsZero() || e.At.Before(q.Until)) &&
		(q.Call == "" || e.Call == q.Call) && (!q.Reverts || e.Reverts != 0)
}

// Mutations lists the journal.
func (r *Reader) Mutations(q MutationQuery) (Page[Entry], error) {
	page := Page[Entry]{Items: []Entry{}}
	last := ^uint64(0)
	if q.Cursor != "" {
		b, err := r.view.seal.Position(q.Cursor, q.Bind)
		if err != nil {
			return page, err
		}
		if len(b) != 8 {
			return page, problem.New("cursor_invalid", "this cursor is of another list")
		}
		last = binary.BigEndian.Uint64(b)
	}
	prefix, entries := []byte{spaceJournal}, true
	switch {
	case q.Table != "" && q.Key != "":
		d := r.db.byName[q.Table]
		if d == nil {
			return page, nil
		}
		prefix, entries = historyPrefix(d.id, q.Key), false
	case q.Connection != "":
		prefix, entries = byActorPrefix(q.Connection), false
	}
	var failed error
	err := r.view.scanPrefix(prefix, true, func(k, v []byte) bool {
		seq := binary.BigEndian.Uint64(k[len(k)-8:])
		if !entries {
			got, ok, err := r.view.get(journalKey(seq))
			if err != nil || !ok {
				failed = err
				return err == nil
			}
			v = got
		}
		_, _, e, err := readEntry(v)
		if err != nil {
			failed = err
			return false
		}
		if !r.scope.seesEntry(&e) || !q.match(&e) {
			return true
		}
		page.Total++
		switch {
		case seq >= last:
		case q.Limit > 0 && len(page.Items) == q.Limit:
			if page.Cursor == "" {
				page.Cursor = r.view.seal.Cursor(binary.BigEndian.AppendUint64(nil, page.Items[q.Limit-1].Seq), q.Bind)
			}
		default:
			page.Items = append(page.Items, e)
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return page, err
}

// Head is the number and hash of the last journal entry. For the owner's own
// views: it tells how many there are.
func (db *DB) Head() (seq uint64, hash []byte) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.head.Seq, db.head.Hash
}
