package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"sophia/messages/problem"
	"sophia/store/analysis"
	"sophia/store/fulltext"
)

// RRFK is the k of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009).
const RRFK = 60

// Fusion says how a search result came about. Signals are those that ran.
type Fusion struct {
	Method  string   `json:"method"`
	K       int      `json:"k"`
	Signals []string `json:"signals"`
}

// SearchQuery asks for rows by text. All of the text is literal: there are no
// operators.
type SearchQuery struct {
	Text   string
	Tables []*Def
	Accept func(d *Def, key string) bool // nil takes all
	Limit  int
	Cursor string
	Bind   string
}

// Hit is a row that was found.
type Hit struct {
	Table string
	Key   string
	Rank  int     // 1, 2, … over all pages
	Score float64 // fused: the sum of 1/(RRFK+rank) over the signals
	BM25  float64
}

// SearchPage is one page of hits. Total counts all rows that match and that
// the scope sees.
type SearchPage struct {
	Hits   []Hit
	Total  int
	Cursor string
	Fusion Fusion
}

// position is what a search cursor holds: where the page ended, and what
// scores depend on, frozen, so that writes in between do not change the order.
type position struct {
	Stats fulltext.Stats `json:"s"`
	End   uint32         `json:"e"` // rows with this ordinal or a higher one came later
	Total int            `json:"t"`
	Rank  int            `json:"r"`
	Score uint64         `json:"c"` // bits of the last hit's score
	Ord   uint32         `json:"o"`
}

// Search ranks rows by BM25. What is out of scope is neither found nor counted
// nor part of the statistics that scores depend on.
func (r *Reader) Search(q SearchQuery) (SearchPage, error) {
	page := SearchPage{Hits: []Hit{}, Fusion: Fusion{Method: "rrf", K: RRFK, Signals: []string{"bm25"}}}
	terms := analysis.QueryTerms(q.Text)
	if len(terms) == 0 {
		return page, nil
	}
	var at position
	if q.Cursor != "" {
		b, err := r.view.seal.Position(q.Cursor, q.Bind)
		if err != nil {
			return page, err
		}
		if json.Unmarshal(b, &at) != nil || len(at.Stats.DF) != len(terms) {
			return page, problem.New("cursor_invalid", "this cursor is of another search").WithHint("Leave it out to start again.")
		}
	}
	found, stats, err := r.collect(terms, q.Tables)
	if err != nil {
		return page, err
	}
	var last *fulltext.Hit
	if q.Cursor != "" {
		stats = at.Stats
		last = &fulltext.Hit{Ord: at.Ord, Score: math.Float64frombits(at.Score)}
	} else {
		h, err := r.head()
		if err != nil {
			return page, err
		}
		at = position{Stats: stats, End: h.Ord}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 20
	}
	var failed error
	var accept func(ord uint32) bool
	if q.Accept != nil {
		accept = func(ord uint32) bool {
			d, key, err := r.document(ord)
			if err != nil {
				failed = err
			}
			return d != nil && q.Accept(d, key)
		}
	}
	if q.Cursor == "" {
		page.Total, err = fulltext.Count(found, accept)
	} else {
		page.Total = at.Total
		chosen := accept
		accept = func(ord uint32) bool { return ord < at.End && (chosen == nil || chosen(ord)) }
	}
	var hits []fulltext.Hit
	if err == nil {
		hits, err = fulltext.Top(found, fulltext.Query{Stats: stats, Keep: limit + 1, After: last, Accept: accept})
	}
	if err = errors.Join(failed, err); err != nil {
		return page, unreadable(err)
	}
	for i, h := range hits {
		if i == limit {
			end := hits[limit-1]
			next := at
			next.Total, next.Rank = page.Total, at.Rank+limit
			next.Score, next.Ord = math.Float64bits(end.Score), end.Ord
			b, err := json.Marshal(next)
			if err != nil {
				return page, err
			}
			page.Cursor = r.view.seal.Cursor(b, q.Bind)
			break
		}
		d, key, err := r.document(h.Ord)
		if err != nil {
			return page, err
		}
		if d == nil {
			continue
		}
		rank := at.Rank + i + 1
		page.Hits = append(page.Hits, Hit{Table: d.name, Key: key, Rank: rank, Score: 1 / float64(RRFK+rank), BM25: h.Score})
	}
	return page, nil
}

// collect opens the blocks of all visible partitions, and counts what scores
// depend on.
func (r *Reader) collect(terms []string, tables []*Def) ([]fulltext.Lists, fulltext.Stats, error) {
	var found []fulltext.Lists
	sets := map[string]fulltext.Lists{} // by table and partition
	stats := fulltext.Stats{DF: make([]uint64, len(terms))}
	var bad error
	take := func(set string, term int, first []byte, block []byte) bool {
		if len(first) != 4 {
			bad = fulltext.ErrBlock
			return false
		}
		var k fulltext.Block
		if k, bad = fulltext.Open(binary.BigEndian.Uint32(first), bytes.Clone(block)); bad != nil {
			return false
		}
		lists := sets[set]
		if lists == nil {
			lists = make(fulltext.Lists, len(terms))
			sets[set] = lists
			found = append(found, lists)
		}
		lists[term] = append(lists[term], k)
		stats.DF[term] += uint64(k.Len())
		return true
	}
	for _, d := range tables {
		if !d.searched || r.scope.Nothing() && d.ownerOnly {
			continue
		}
		var visible []string
		prefix := tablePrefix(spacePartition, d.id)
		err := r.view.scanPrefix(prefix, false, func(k, v []byte) bool {
			if p := string(k[len(prefix):]); r.scope.sees(p) {
				visible = append(visible, p)
				s := decodeStats(v)
				stats.Docs += s.docs
				stats.Length += s.length
			}
			return true
		})
		if err != nil {
			return nil, stats, err
		}
		id := string(binary.BigEndian.AppendUint16(nil, d.id))
		for i, term := range terms {
			if r.scope.all && (r.scope.owner || !d.ownerOnly) {
				prefix := postingPrefix(term, d.id, nil)
				err = r.view.scanPrefix(prefix, false, func(k, v []byte) bool {
					partition, first, _ := cutString(k[len(prefix):])
					return take(id+partition, i, first, v)
				})
			} else {
				for _, p := range visible {
					prefix := postingPrefix(term, d.id, &p)
					err = r.view.scanPrefix(prefix, false, func(k, v []byte) bool {
						return take(id+p, i, k[len(prefix):], v)
					})
					if err != nil || bad != nil {
						break
					}
				}
			}
			if err = errors.Join(err, bad); err != nil {
				return nil, stats, unreadable(err)
			}
		}
	}
	return found, stats, nil
}

// unreadable is the error of a search that met a damaged block.
func unreadable(err error) error {
	if errors.Is(err, fulltext.ErrBlock) {
		return damaged("a posting block can't be read")
	}
	return err
}

func (r *Reader) document(ord uint32) (*Def, string, error) {
	v, ok, err := r.view.get(documentKey(ord))
	if err != nil || !ok || len(v) < 2 {
		return nil, "", err
	}
	return r.db.defs[binary.BigEndian.Uint16(v)], string(v[2:]), nil
}

// head is the store's state besides its rows, as of the snapshot.
func (r *Reader) head() (h head, err error) {
	raw, ok, err := r.view.get(metaKey("head"))
	if err == nil && ok {
		err = json.Unmarshal(raw, &h)
	}
	return h, err
}
