package store

import (
	"context"
	"fmt"

	"sophia/store/analysis"
	"sophia/store/engine"
	"sophia/store/fulltext"
)

// searchSignature names what the search index is made by.
func searchSignature() []byte { return fmt.Appendf(nil, "%d/%d", analysis.Version, fulltext.Format) }

// rebuildSearch makes the search index anew from the rows: after an update
// whose analyzer gives other terms, or that keeps them in another format. It can
// be cut off anywhere: the signature is written last.
func (db *DB) rebuildSearch() error {
	for _, space := range []byte{spacePosting, spacePartition, spaceOrdinal, spaceDocument} {
		if err := db.deleteSpace(space); err != nil {
			return err
		}
	}
	type row struct {
		d   *Def
		key string
	}
	var rows []row
	r := db.View(Owner())
	defer r.Close()
	for _, d := range db.defs {
		if !d.searched {
			continue
		}
		prefix := tablePrefix(spaceRow, d.id)
		if err := r.view.scanPrefix(prefix, false, func(k, _ []byte) bool {
			rows = append(rows, row{d, string(k[len(prefix):])})
			return true
		}); err != nil {
			return err
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), 64)
		some := rows[:n]
		rows = rows[n:]
		_, err := db.Write(context.Background(), System("sophiad", "search index rebuilt"), func(tx *Tx) error {
			for _, w := range some {
				val, ok, err := r.view.get(rowKey(w.d.id, w.key))
				if err != nil || !ok {
					return err
				}
				partition, raw, err := unpackRow(w.d.name, val)
				if err != nil {
					return err
				}
				text, err := w.d.text(raw)
				if err != nil {
					return err
				}
				if err := tx.reindexText(w.d.id, w.key, false, "", "", true, partition, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return db.eng.Apply([]engine.Op{{Key: metaKey("search"), Value: searchSignature()}})
}

func (db *DB) deleteSpace(space byte) error {
	for {
		var ops []engine.Op
		snap := db.eng.Snapshot()
		err := snap.Scan([]byte{space}, []byte{space + 1}, false, func(k, _ []byte) bool {
			ops = append(ops, engine.Op{Key: append([]byte(nil), k...)})
			return len(ops) < 10000
		})
		snap.Close()
		if err != nil || len(ops) == 0 {
			return err
		}
		if err := db.eng.Apply(ops); err != nil {
			return err
		}
	}
}
