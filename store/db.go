package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store/engine"
	"sophia/store/seal"
)

// SchemaVersion is of what is on disk. A newer store refuses an older daemon.
const SchemaVersion = 1

// Options of Open. Dir, HighWater and Tables are needed.
type Options struct {
	Dir       string // the engine's folder
	HighWater string // a file outside Dir, see highwater.go
	Tables    []*Def
	Now       func() time.Time // time.Now by default
	Log       *slog.Logger     // silent by default
	Engine    engine.Engine    // Badger in Dir by default
}

// Writer writes. DB is one; the writer actor, which commits in groups, is
// another.
type Writer interface {
	// Write runs f and commits what it wrote: all of it or, when f or the
	// commit fails, nothing. f may run again after a failure of others in its
	// group, so it must not have effects but through tx. An error of f is
	// returned as it is.
	Write(ctx context.Context, cause Cause, f func(*Tx) error) (Receipt, error)
}

// Receipt says what a write did.
type Receipt struct {
	Mutations []string // identifiers of its journal entries, in order
	First     uint64   // their numbers, for the daemon's own use; 0 when nothing changed
	Last      uint64
	At        time.Time
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	eng    engine.Engine
	seal   *seal.Sealer
	now    func() time.Time
	log    *slog.Logger
	defs   map[uint16]*Def
	byName map[string]*Def
	water  *highWater

	writing sync.Mutex // one commit at a time
	mu      sync.Mutex // guards head
	head    head
	hooks   map[uint16]func(tx *Tx, before, after any) error // set before serving

	decoded  decodedEntries
	versions map[uint16]*atomic.Uint64
	failed   atomic.Pointer[problem.Error] // set when a commit's outcome is unknown
}

// Open opens the store, or creates it.
//
// Codes: store_locked (another process has it), store_newer (written by a newer
// Sophia), store_truncated (acknowledged writes are missing), store_damaged,
// store_not_opened.
func Open(o Options) (*DB, error) {
	db := &DB{now: o.Now, log: o.Log, defs: map[uint16]*Def{}, byName: map[string]*Def{},
		hooks: map[uint16]func(*Tx, any, any) error{}, versions: map[uint16]*atomic.Uint64{}}
	if db.now == nil {
		db.now = time.Now
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	for _, d := range o.Tables {
		if db.defs[d.id] != nil || db.byName[d.name] != nil {
			return nil, fmt.Errorf("store: two tables are %d or %q", d.id, d.name)
		}
		db.defs[d.id], db.byName[d.name] = d, d
		db.versions[d.id] = new(atomic.Uint64)
	}
	db.eng = o.Engine
	if db.eng == nil {
		var err error
		if db.eng, err = engine.Badger(o.Dir, db.log); err != nil {
			return nil, err
		}
	}
	if err := db.load(o.HighWater); err != nil {
		if db.water != nil {
			err = errors.Join(err, db.water.close())
		}
		return nil, errors.Join(err, db.eng.Close())
	}
	return db, nil
}

func (db *DB) load(waterFile string) error {
	snap := db.eng.Snapshot()
	defer snap.Close()
	schema, known, err := snap.Get(metaKey("schema"))
	if err != nil {
		return err
	}
	if !known {
		return db.create(snap, waterFile)
	}
	version, err := strconv.Atoi(string(schema))
	if err != nil {
		return damaged("its schema version is %q", schema)
	}
	if version > SchemaVersion {
		return problem.New("store_newer", "the store has schema version %d, and this Sophia knows versions up to %d", version, SchemaVersion).
			WithHint("Use the newer Sophia that wrote it, or restore a backup made before the update.")
	}
	key, ok, err := snap.Get(metaKey("seal"))
	if err != nil || !ok {
		return errors.Join(damaged("its sealing key is missing"), err)
	}
	if db.seal, err = seal.New(key); err != nil {
		return damaged("its sealing key can't be used")
	}
	raw, ok, err := snap.Get(metaKey("head"))
	if err != nil || !ok || json.Unmarshal(raw, &db.head) != nil {
		return errors.Join(damaged("its head is missing"), err)
	}
	if db.head.Rows == nil {
		db.head.Rows = map[uint16]int64{}
	}
	if err := db.checkHead(snap); err != nil {
		return err
	}
	if db.water, err = openHighWater(waterFile, key); err != nil {
		return err
	}
	if err := db.water.check(snap, db.head); err != nil {
		return err
	}
	db.water.raise(db.head.Seq, db.head.Hash)
	by, _, err := snap.Get(metaKey("search"))
	if err == nil && !bytes.Equal(by, searchSignature()) {
		err = db.rebuildSearch()
	}
	if err != nil {
		return err
	}
	if by, _, err = snap.Get(metaKey("kept")); err != nil || string(by) == db.keptSignature() {
		return err
	}
	return db.rebuildKept()
}

// checkHead compares the head with the journal: they are one commit.
func (db *DB) checkHead(snap engine.Snapshot) error {
	_, beyond, err := snap.Get(journalKey(db.head.Seq + 1))
	if err != nil {
		return err
	}
	if beyond {
		return damaged("the journal goes on after its head, entry %d", db.head.Seq)
	}
	if db.head.Seq == 0 {
		return nil
	}
	v, ok, err := snap.Get(journalKey(db.head.Seq))
	if err != nil {
		return err
	}
	if ok {
		var hash []byte
		if hash, _, _, err = readEntry(v); err == nil && bytes.Equal(hash, db.head.Hash) {
			return nil
		}
	}
	return damaged("journal entry %d is missing or another", db.head.Seq)
}

func damaged(format string, a ...any) error {
	return problem.New("store_damaged", "the store is damaged: "+format, a...).
		WithHint("Restore it from a backup.")
}

func (db *DB) create(snap engine.Snapshot, waterFile string) error {
	empty := true
	if err := snap.Scan(nil, nil, false, func(_, _ []byte) bool { empty = false; return false }); err != nil {
		return err
	}
	if !empty {
		return damaged("it has data and no schema version")
	}
	key := make([]byte, seal.KeySize)
	rand.Read(key)
	var err error
	if db.seal, err = seal.New(key); err != nil {
		return err
	}
	if db.water, err = openHighWater(waterFile, key); err != nil {
		return err
	}
	if err := db.water.checkNew(); err != nil {
		return err
	}
	db.head = head{Rows: map[uint16]int64{}}
	raw, err := marshal(db.head)
	if err != nil {
		return err
	}
	return db.eng.Apply([]engine.Op{
		{Key: metaKey("schema"), Value: []byte(strconv.Itoa(SchemaVersion))},
		{Key: metaKey("seal"), Value: key},
		{Key: metaKey("head"), Value: raw},
		{Key: metaKey("search"), Value: searchSignature()},
		{Key: metaKey("kept"), Value: []byte(db.keptSignature())},
	})
}

// Attach gives a table what else belongs to a change of one of its rows. The
// hook runs within the same write, with the owner's scope; before is nil on an
// insert and after on a delete. Attach before the store is used.
func Attach[R any](db *DB, t *Table[R], hook func(tx *Tx, before, after *R) error) {
	db.hooks[t.spec.ID] = func(tx *Tx, before, after any) error {
		return hook(tx, before.(*R), after.(*R))
	}
}

// Version counts the commits that changed a table since the store was opened.
// It has moved before the write that moved it returns.
func (db *DB) Version(d *Def) uint64 { return db.versions[d.id].Load() }

// Write implements Writer.
func (db *DB) Write(ctx context.Context, cause Cause, f func(*Tx) error) (Receipt, error) {
	out := db.WriteGroup([]Job{{Ctx: ctx, Cause: cause, Do: f}})
	return out[0].Receipt, out[0].Err
}

// Job is one write of a group.
type Job struct {
	Ctx   context.Context
	Cause Cause
	Do    func(*Tx) error
}

// Outcome is what became of a job.
type Outcome struct {
	Receipt Receipt
	Err     error
}

// WriteGroup commits several writes at once. Each is on its own: one that fails
// leaves no trace and does not touch the others. Each sees those before it.
func (db *DB) WriteGroup(jobs []Job) []Outcome {
	db.writing.Lock()
	defer db.writing.Unlock()
	out := make([]Outcome, len(jobs))
	for from := 0; from < len(jobs); {
		from += db.commitSome(jobs[from:], out[from:])
	}
	return out
}

// commitSome commits as many of the jobs as fit one batch, at least one, and
// says how many.
func (db *DB) commitSome(jobs []Job, out []Outcome) int {
	if p := db.failed.Load(); p != nil {
		for i := range jobs {
			out[i].Err = p
		}
		return len(jobs)
	}
	snap := db.eng.Snapshot()
	defer snap.Close()
	maxOps, maxBytes := db.eng.Limit()
	over := new(pending)
	state := db.headCopy()
	touched := map[uint16]bool{}
	var undo []func()
	var done []int
	n, size := 0, 0
	for ; n < len(jobs); n++ {
		tx := db.begin(jobs[n].Ctx, snap, over.Copy(), state.clone(), jobs[n].Cause)
		tx.size = size
		err := tx.run(jobs[n].Do)
		if err != nil {
			tx.rollback()
			out[n].Err = err
			continue
		}
		if tx.view.over.Len()+8 > maxOps || tx.size+1024 > maxBytes {
			tx.rollback()
			if len(done) > 0 { // once more, in a batch of its own
				break
			}
			out[n].Err = problem.New("write_too_big", "this write has %d keys and %d bytes, and one commit can take %d and %d", tx.view.over.Len(), tx.size, maxOps, maxBytes).
				WithHint("Write it in several parts.")
			continue
		}
		out[n].Receipt = tx.receipt(state.Seq)
		over, state, size = tx.view.over, tx.head, tx.size
		undo = append(undo, tx.undo...)
		maps.Copy(touched, tx.touched)
		done = append(done, n)
	}
	if over.Len() == 0 {
		return n
	}
	raw, err := marshal(state)
	if err == nil {
		ops := make([]engine.Op, 0, over.Len()+1)
		over.Scan(func(k string, v []byte) bool {
			ops = append(ops, engine.Op{Key: []byte(k), Value: v})
			return true
		})
		ops = append(ops, engine.Op{Key: metaKey("head"), Value: raw})
		err = db.eng.Apply(ops)
	}
	if err != nil {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		db.log.Error("commit failed", "error", err)
		p := problem.Wrap(err, "write_too_big", "these writes do not fit one commit").WithHint("Write them one by one, or in several parts.")
		switch {
		case errors.Is(err, engine.ErrTooBig):
		case errors.Is(err, engine.ErrNoSpace):
			p = problem.Wrap(err, "disk_full", "the disk is full, so this was not saved").WithHint("Free some space; nothing that was saved is lost.")
		default:
			// After a failed sync nobody knows what is on disk, and trying again
			// proves nothing: the kernel may have dropped the pages.
			p = problem.Wrap(err, "store_write_failed", "the write could not be saved; whether it is on disk is unknown until the next start").
				WithHint("Check the disk (space, errors), then restart sophiad.")
			db.failed.Store(p)
		}
		for _, i := range done {
			out[i] = Outcome{Err: p}
		}
		return n
	}
	db.mu.Lock()
	db.head = state
	db.mu.Unlock()
	for id := range touched {
		db.versions[id].Add(1)
	}
	db.water.raise(state.Seq, state.Hash)
	return n
}

func (db *DB) headCopy() head {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.head.clone()
}

func (db *DB) begin(ctx context.Context, snap engine.Snapshot, over *pending, h head, cause Cause) *Tx {
	return &Tx{ctx: ctx, db: db, view: view{snap: snap, seal: db.seal, over: over}, cause: cause,
		now: db.now().UTC().Round(0), head: h, touched: map[uint16]bool{}, tails: map[string]*tail{}}
}

// run calls f, and lays down what it gathered. A panic is an error of this
// write alone.
func (tx *Tx) run(f func(*Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			tx.db.log.Error("a write panicked", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("store: a write panicked: %v", r)
		}
	}()
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.expected(); err != nil {
		return err
	}
	tx.flushTails()
	return tx.journal()
}

func (tx *Tx) rollback() {
	for i := len(tx.undo) - 1; i >= 0; i-- {
		tx.undo[i]()
	}
	tx.undo = nil
}

func (tx *Tx) receipt(before uint64) Receipt {
	r := Receipt{At: tx.now, Mutations: []string{}}
	if tx.head.Seq > before {
		r.First, r.Last = before+1, tx.head.Seq
		for s := r.First; s <= r.Last; s++ {
			r.Mutations = append(r.Mutations, tx.db.ID(s))
		}
	}
	return r
}

// Preview runs a write without committing it and returns the rows as they are
// and as they would be. Rows of derived tables are left out.
func (db *DB) Preview(ctx context.Context, cause Cause, f func(*Tx) error) ([]messages.Change, error) {
	snap := db.eng.Snapshot()
	defer snap.Close()
	tx := db.begin(ctx, snap, new(pending), db.headCopy(), cause)
	tx.dry = true
	if err := tx.run(f); err != nil {
		return nil, err
	}
	out := make([]messages.Change, 0, len(tx.entries))
	for _, e := range tx.entries {
		c := messages.Change{Table: e.Table, Key: e.Key, Before: e.Before, After: e.After, At: tx.now}
		if c.Before == nil {
			c.Before = json.RawMessage("null")
		}
		if c.After == nil {
			c.After = json.RawMessage("null")
		}
		out = append(out, c)
	}
	return out, nil
}

// Rows is how many rows a table has. For the owner's own views: it counts
// without scope.
func (db *DB) Rows(d *Def) int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.head.Rows[d.id]
}

// Close ends the store. Writes under way are finished first.
func (db *DB) Close() error {
	db.writing.Lock()
	defer db.writing.Unlock()
	db.failed.CompareAndSwap(nil, problem.New("store_closed", "the store is closed"))
	return errors.Join(db.water.close(), db.eng.Close())
}
