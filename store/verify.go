package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Report is what Verify found. Problems is empty for a sound store.
type Report struct {
	Entries  uint64           `json:"entries"`
	Rows     map[string]int64 `json:"rows"`
	Problems []string         `json:"problems"`
}

// Verify reads everything: block checksums, the journal's sequence and hash
// chain, every row against the last entry that wrote it, counts, and index entries
// in both directions.
func (db *DB) Verify() (Report, error) {
	rep := Report{Rows: map[string]int64{}, Problems: []string{}}
	bad := func(format string, a ...any) {
		if len(rep.Problems) < 100 {
			rep.Problems = append(rep.Problems, fmt.Sprintf(format, a...))
		}
	}
	if err := db.eng.Check(); err != nil {
		bad("stored blocks: %v", err)
	}
	db.writing.Lock() // the head must be that of the snapshot
	h := db.headCopy()
	r := db.View(Owner())
	db.writing.Unlock()
	defer r.Close()

	last := map[string][sha256.Size]byte{} // of each row that a journaled write left
	var hash []byte
	err := r.view.scanPrefix([]byte{spaceJournal}, false, func(k, v []byte) bool {
		got, raw, e, err := readEntry(v)
		rep.Entries++
		if err != nil {
			bad("journal entry %d can't be read: %v", rep.Entries, err)
			return true
		}
		if e.Seq != rep.Entries || !bytes.Equal(k, journalKey(e.Seq)) {
			bad("journal entry %d is missing", rep.Entries)
			rep.Entries = e.Seq
		}
		if hash = chain(hash, raw); !bytes.Equal(hash, got) {
			bad("journal entry %d breaks the hash chain", e.Seq)
			hash = bytes.Clone(got)
		}
		row := e.Table + "\x00" + e.Key
		if e.After == nil {
			delete(last, row)
		} else {
			last[row] = sha256.Sum256(e.After)
		}
		return true
	})
	if err != nil {
		return rep, err
	}
	if rep.Entries != h.Seq || rep.Entries > 0 && !bytes.Equal(hash, h.Hash) {
		bad("the journal ends at entry %d, the head says %d", rep.Entries, h.Seq)
	}
	for _, d := range db.defs {
		if err := db.verifyTable(r, d, h.Rows[d.id], last, &rep, bad); err != nil {
			return rep, err
		}
	}
	for row := range last {
		bad("a row is missing that the journal has: %q", row)
	}
	return rep, nil
}

func (db *DB) verifyTable(r *Reader, d *Def, count int64, last map[string][sha256.Size]byte, rep *Report, bad func(string, ...any)) error {
	var rows, indexed int64
	prefix := tablePrefix(spaceRow, d.id)
	err := r.view.scanPrefix(prefix, false, func(k, v []byte) bool {
		rows++
		key := string(k[len(prefix):])
		partition, raw, err := unpackRow(d.name, v)
		if err == nil {
			err = db.verifyRow(r, d, key, partition, raw, &indexed)
		}
		if err != nil {
			bad("%s %q: %v", d.name, key, err)
			return true
		}
		if !d.derived {
			row := d.name + "\x00" + key
			if want, ok := last[row]; !ok || want != sha256.Sum256(raw) {
				bad("%s %q is not as the journal left it", d.name, key)
			}
			delete(last, row)
		}
		return true
	})
	if err != nil {
		return err
	}
	rep.Rows[d.name] = rows
	if rows != count {
		bad("%s has %d rows, the head says %d", d.name, rows, count)
	}
	var entries int64
	err = r.view.scanPrefix(tablePrefix(spaceIndex, d.id), false, func(_, _ []byte) bool { entries++; return true })
	if err == nil && entries != indexed {
		bad("%s has %d index entries, its rows need %d", d.name, entries, indexed)
	}
	if err != nil {
		return err
	}
	return db.verifyTallies(r, d, bad)
}

func (db *DB) verifyRow(r *Reader, d *Def, key, partition string, raw json.RawMessage, indexed *int64) error {
	want, err := d.partition(raw)
	if err != nil {
		return err
	}
	if want != partition {
		return fmt.Errorf("stored for other readers than its content says")
	}
	keys, err := d.indexKeys(key, raw)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if seen[string(k)] {
			continue
		}
		seen[string(k)] = true
		*indexed++
		v, ok, err := r.view.get(k)
		if err != nil {
			return err
		}
		if !ok || !bytes.Equal(v, packRow(partition, []byte(key))) {
			return fmt.Errorf("an index entry is missing or wrong")
		}
	}
	return nil
}
