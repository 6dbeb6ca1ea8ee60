package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sophia/store/engine"
)

// Tally is a value that a table's rows are counted by. The counts are kept with
// each write, so that asking for them costs the same however many rows there are.
type Tally[R any] struct {
	Name  string
	Value func(*R) string
}

// The tally of a table's rows as such; those that it declares follow.
const tallyAll = 0

// Keys of counts: table, tally, value, partition; values: a varint.
func tallyPrefix(table uint16, tally int, value *string) []byte {
	b := append(tablePrefix(spaceTally, table), byte(tally))
	if value != nil {
		b = appendString(b, *value)
	}
	return b
}

func tallyKey(table uint16, tally int, value, partition string) []byte {
	return append(tallyPrefix(table, tally, &value), partition...)
}

// Count is how many rows of the table the scope sees: the total of a List of all.
func (t *Table[R]) Count(s Source) (int, error) {
	by, err := t.tallied(s, tallyAll)
	return by[""], err
}

// Tally is how many rows of the table the scope sees, by the value of a declared
// tally. Values of no row are left out.
func (t *Table[R]) Tally(s Source, name string) (map[string]int, error) {
	for i, y := range t.spec.Tallies {
		if y.Name == name {
			return t.tallied(s, i+1)
		}
	}
	return nil, fmt.Errorf("store: table %s has no tally %q", t.spec.Name, name)
}

func (t *Table[R]) tallied(s Source, tally int) (map[string]int, error) {
	v, scope := s.source()
	out := map[string]int{}
	prefix := tallyPrefix(t.spec.ID, tally, nil)
	var bad error
	err := v.scanPrefix(prefix, false, func(k, val []byte) bool {
		value, partition, ok := cutString(k[len(prefix):])
		n, size := binary.Uvarint(val)
		if !ok || size <= 0 {
			bad = damaged("a count of %s can't be read", t.spec.Name)
			return false
		}
		if scope.sees(string(partition)) {
			out[value] += int(n)
		}
		return true
	})
	if bad != nil {
		err = bad
	}
	return out, err
}

// tallyValues are the values of a row, in the order of the tallies.
func (t *Table[R]) tallyValues(r *R) []string {
	out := make([]string, 1+len(t.spec.Tallies))
	for i, y := range t.spec.Tallies {
		out[i+1] = y.Value(r)
	}
	return out
}

// recount brings the counts from a row's old values to its new ones; nil is no row.
func (tx *Tx) recount(table uint16, old []string, was string, now []string, is string) error {
	for i := range max(len(old), len(now)) {
		if old != nil && now != nil && was == is && old[i] == now[i] {
			continue
		}
		if old != nil {
			if err := tx.addCount(tallyKey(table, i, old[i], was), -1); err != nil {
				return err
			}
		}
		if now != nil {
			if err := tx.addCount(tallyKey(table, i, now[i], is), +1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *Tx) addCount(key []byte, by int) error {
	b, _, err := tx.view.get(key)
	if err != nil {
		return err
	}
	n, _ := binary.Uvarint(b)
	switch {
	case by < 0 && n == 0:
		return damaged("a row was removed that was never counted")
	case by < 0 && n == 1:
		tx.set(key, nil)
	default:
		tx.set(key, binary.AppendUvarint(nil, uint64(int64(n)+int64(by))))
	}
	return nil
}

// keptSignature names the tallies and split indexes of all tables: with others,
// they are made anew.
func (db *DB) keptSignature() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(db.defs)) {
		parts = append(parts, fmt.Sprintf("%d:%s", id, strings.Join(db.defs[id].kept, ",")))
	}
	return strings.Join(parts, ";")
}

// counts are what the counts of a table should be, by key.
func (db *DB) counts(v *view, d *Def) (map[string]uint64, error) {
	out := map[string]uint64{}
	var bad error
	err := v.scanPrefix(tablePrefix(spaceRow, d.id), false, func(_, val []byte) bool {
		partition, raw, err := unpackRow(d.name, val)
		var values []string
		if err == nil {
			values, err = d.tally(raw)
		}
		if bad = err; err != nil {
			return false
		}
		for i, value := range values {
			out[string(tallyKey(d.id, i, value, partition))]++
		}
		return true
	})
	if bad != nil {
		err = bad
	}
	return out, err
}

// rebuildKept counts all rows and splits the indexes. It can be cut off
// anywhere: what they are made by is written last.
func (db *DB) rebuildKept() error {
	if err := db.deleteSpace(spaceTally); err != nil {
		return err
	}
	snap := db.eng.Snapshot()
	defer snap.Close()
	v := &view{snap: snap, seal: db.seal}
	var ops []engine.Op
	var failed error
	put := func(op engine.Op) bool {
		if ops = append(ops, op); len(ops) == 5000 {
			failed = db.eng.Apply(ops)
			ops = nil
		}
		return failed == nil
	}
	for _, d := range db.defs {
		err := v.merge(indexPrefix(d.id, splitIndex), after(tablePrefix(spaceIndex, d.id)), false, func(k, _ []byte) bool {
			return put(engine.Op{Key: bytes.Clone(k)})
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
		prefix := tablePrefix(spaceRow, d.id)
		var bad error
		err = v.scanPrefix(prefix, false, func(k, val []byte) bool {
			key := string(k[len(prefix):])
			partition, raw, err := unpackRow(d.name, val)
			var keys [][]byte
			if err == nil {
				keys, err = d.indexKeys(key, raw)
			}
			if bad = err; err != nil {
				return false
			}
			for _, ik := range keys {
				if ik[3] >= splitIndex && !put(engine.Op{Key: ik, Value: packRow(partition, []byte(key))}) {
					return false
				}
			}
			return true
		})
		if err = cmp.Or(err, bad, failed); err != nil {
			return err
		}
		counts, err := db.counts(v, d)
		if err != nil {
			return err
		}
		for k, n := range counts {
			if !put(engine.Op{Key: []byte(k), Value: binary.AppendUvarint(nil, n)}) {
				return failed
			}
		}
	}
	put(engine.Op{Key: metaKey("kept"), Value: []byte(db.keptSignature())})
	return cmp.Or(failed, db.eng.Apply(ops))
}

// verifyTallies compares a table's counts with its rows.
func (db *DB) verifyTallies(r *Reader, d *Def, bad func(string, ...any)) error {
	want, err := db.counts(&r.view, d)
	if err != nil {
		return nil // the row itself is reported
	}
	err = r.view.scanPrefix(tablePrefix(spaceTally, d.id), false, func(k, v []byte) bool {
		n, _ := binary.Uvarint(v)
		if want[string(k)] != n {
			bad("%s are counted wrong: %d where there are %d", d.name, n, want[string(k)])
		}
		delete(want, string(k))
		return true
	})
	if err == nil && len(want) > 0 {
		bad("%s: %d counts are missing", d.name, len(want))
	}
	return err
}

func (t *Table[R]) tallyOf(raw json.RawMessage) ([]string, error) {
	r, err := decode[R](raw)
	if err != nil {
		return nil, err
	}
	return t.tallyValues(r), nil
}
