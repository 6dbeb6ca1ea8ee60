package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"sophia/messages/problem"
)

// Source is what rows are read from: a Reader, or a Tx, which also sees its
// own writes.
type Source interface {
	source() (*view, Scope)
}

// Reader is a snapshot of the store for one scope. Close it. It may be used by
// one goroutine at a time.
type Reader struct {
	db    *DB
	view  view
	scope Scope
}

// View opens a reader.
func (db *DB) View(scope Scope) *Reader {
	return &Reader{db: db, view: view{snap: db.eng.Snapshot(), seal: db.seal}, scope: scope}
}

// Until makes the reader's lists and searches end with ctx, and returns it.
func (r *Reader) Until(ctx context.Context) *Reader {
	r.view.ctx = ctx
	return r
}

// Close gives the snapshot back.
func (r *Reader) Close() { r.view.snap.Close() }

// Scope is what the reader sees.
func (r *Reader) Scope() Scope { return r.scope }

func (r *Reader) source() (*view, Scope) { return &r.view, r.scope }

// Get returns the row of a key. The error's code is not_found when there is
// none for this scope.
func (t *Table[R]) Get(s Source, key string) (R, error) {
	var none R
	v, scope := s.source()
	raw, err := getRow(v, scope, t.def, key)
	if err != nil {
		return none, err
	}
	r, err := decode[R](raw)
	if err != nil {
		return none, err
	}
	return *r, nil
}

// Has says whether a row exists for the scope.
func (t *Table[R]) Has(s Source, key string) (bool, error) {
	v, scope := s.source()
	_, err := getRow(v, scope, t.def, key)
	if problem.CodeOf(err) == "not_found" {
		return false, nil
	}
	return err == nil, err
}

func getRow(v *view, scope Scope, d *Def, key string) (json.RawMessage, error) {
	val, ok, err := v.get(rowKey(d.id, key))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, d.notFound(key)
	}
	partition, raw, err := unpackRow(d.name, val)
	if err != nil {
		return nil, err
	}
	if !scope.sees(partition) {
		return nil, d.notFound(key)
	}
	return raw, nil
}

// Query says which rows of a table to list.
type Query[R any] struct {
	Index   string        // "" lists by key
	Prefix  Tuple         // the index values that all rows share
	From    Tuple         // the first value after Prefix, inclusive; nil: from the start
	To      Tuple         // the last value after Prefix, exclusive; nil: to the end
	Reverse bool          // from high to low
	Where   func(*R) bool // nil takes all
	Limit   int           // of one page; 0: all
	Cursor  string        // of the page before
	Bind    string        // what a cursor is bound to: connection and query
}

// Page is one page of a list. Total counts all rows that match and that the
// scope sees.
type Page[R any] struct {
	Items  []R
	Total  int
	Cursor string
}

// List returns rows in index order. Paging is stable: a row that was there all
// along is shown exactly once, whatever is written in between.
func (t *Table[R]) List(s Source, q Query[R]) (Page[R], error) {
	return t.list(s, q, false)
}

// list stops at the end of the page, and does not count, when only is set.
func (t *Table[R]) list(s Source, q Query[R], only bool) (Page[R], error) {
	v, scope := s.source()
	page := Page[R]{Items: []R{}}
	prefix := tablePrefix(spaceRow, t.spec.ID)
	if q.Index != "" {
		i, err := t.index(q.Index)
		if err != nil {
			return page, err
		}
		if only && t.spec.Indexes[i].Split && !scope.all && q.Where == nil && q.From == nil && q.To == nil && q.Limit > 0 {
			page.Items, err = t.topSplit(v, scope, i, q)
			return page, err
		}
		prefix = q.Prefix.append(indexPrefix(t.spec.ID, i))
	}
	low, high := prefix, after(prefix)
	if q.From != nil {
		low = q.From.append(append([]byte(nil), prefix...))
	}
	if q.To != nil {
		high = q.To.append(append([]byte(nil), prefix...))
	}
	var last []byte
	if q.Cursor != "" {
		var err error
		if last, err = v.seal.Position(q.Cursor, q.Bind); err != nil {
			return page, err
		}
	}
	var lastKey []byte
	var failed error
	err := v.scan(low, high, q.Reverse, func(key, val []byte) bool {
		var partition string
		var raw json.RawMessage
		if partition, raw, failed = unpackRow(t.spec.Name, val); failed != nil {
			return false
		}
		if !scope.sees(partition) {
			return true
		}
		shown := last != nil && (string(key) == string(last) || (string(key) < string(last)) != q.Reverse)
		full := q.Limit > 0 && len(page.Items) == q.Limit
		if (shown || full) && q.Where == nil {
			if full && !shown && page.Cursor == "" {
				page.Cursor = v.seal.Cursor(lastKey, q.Bind)
			}
			page.Total++ // counted without reading the row
			return true
		}
		if q.Index != "" {
			raw, failed = getRow(v, scope, t.def, string(raw))
			if failed != nil {
				return false
			}
		}
		r, err := decode[R](raw)
		if err != nil {
			failed = err
			return false
		}
		if q.Where != nil && !q.Where(r) {
			return true
		}
		page.Total++
		switch {
		case shown:
		case full:
			if page.Cursor == "" {
				page.Cursor = v.seal.Cursor(lastKey, q.Bind)
			}
		default:
			page.Items = append(page.Items, *r)
			lastKey = append(lastKey[:0], key...)
			return !only || len(page.Items) < q.Limit
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return page, err
}

// All is every row that List would page through.
func (t *Table[R]) All(s Source, q Query[R]) ([]R, error) {
	q.Limit, q.Cursor = 0, ""
	p, err := t.List(s, q)
	return p.Items, err
}

// Top is the first Limit rows of a query, without counting the rest.
func (t *Table[R]) Top(s Source, q Query[R]) ([]R, error) {
	q.Cursor = ""
	p, err := t.list(s, q, true)
	return p.Items, err
}

// topSplit is Top over a split index: the first rows of each partition that the
// scope sees, and of those the first.
func (t *Table[R]) topSplit(v *view, scope Scope, index int, q Query[R]) ([]R, error) {
	type entry struct{ order, key string }
	var found []entry
	var bad error
	all, none := tallyPrefix(t.spec.ID, tallyAll, new(string)), []R{}
	var visible []string
	if err := v.scanPrefix(all, false, func(k, _ []byte) bool {
		if p := string(k[len(all):]); scope.sees(p) {
			visible = append(visible, p)
		}
		return true
	}); err != nil {
		return none, err
	}
	for _, p := range visible {
		base := splitPrefix(t.spec.ID, index, p)
		n := 0
		err := v.scanPrefix(q.Prefix.append(append([]byte(nil), base...)), q.Reverse, func(k, val []byte) bool {
			var key json.RawMessage
			if _, key, bad = unpackRow(t.spec.Name, val); bad != nil {
				return false
			}
			found = append(found, entry{string(k[len(base):]), string(key)})
			n++
			return n < q.Limit
		})
		if bad != nil || err != nil {
			return none, errors.Join(bad, err)
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.order, b.order) })
	if q.Reverse {
		slices.Reverse(found)
	}
	out := none
	for _, e := range found[:min(len(found), q.Limit)] {
		raw, err := getRow(v, scope, t.def, e.key)
		if err != nil {
			return none, err
		}
		r, err := decode[R](raw)
		if err != nil {
			return none, err
		}
		out = append(out, *r)
	}
	return out, nil
}

// First is the first row of a query; ok is false when there is none.
func (t *Table[R]) First(s Source, q Query[R]) (row R, ok bool, err error) {
	q.Limit, q.Cursor = 1, ""
	page, err := t.list(s, q, true)
	if err != nil || len(page.Items) == 0 {
		return row, false, err
	}
	return page.Items[0], true, nil
}
