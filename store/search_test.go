package store_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/analysis"
	"sophia/store/fulltext"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

// indexed is a note with its place in the order of first writes.
type indexed struct {
	tables.Note
	table *store.Table[tables.Note]
	at    int
}

// ranking scores every row that the scope sees and the query accepts, one by one.
func ranking(rows map[string]indexed, scope store.Scope, query string, accept func(*store.Def, string) bool) []store.Hit {
	terms := analysis.QueryTerms(query)
	df := make([]float64, len(terms))
	var visible []indexed
	var docs, length float64
	for _, row := range rows {
		if !scope.All() && (row.Entity == "" || !scope.Has(row.Entity)) {
			continue
		}
		visible = append(visible, row)
		has := analysis.Terms(row.Entity + " " + row.Text)
		docs, length = docs+1, length+float64(len(has))
		for i, term := range terms {
			if slices.Contains(has, term) {
				df[i]++
			}
		}
	}
	slices.SortFunc(visible, func(a, b indexed) int { return a.at - b.at })
	var all []store.Hit
	for _, row := range visible {
		has := analysis.Terms(row.Entity + " " + row.Text)
		score := 0.0
		for i, term := range terms {
			n := 0
			for _, h := range has {
				if h == term {
					n++
				}
			}
			if n > 0 {
				norm := fulltext.B * docs / length
				score += math.Log(1+(docs-df[i]+0.5)/(df[i]+0.5)) * (fulltext.K1 + 1) / (1 + fulltext.K1*(1-fulltext.B+float64(norm*float64(len(has))))/float64(n))
			}
		}
		if score > 0 && (accept == nil || accept(row.table.Def(), row.ID)) {
			all = append(all, store.Hit{Table: row.table.Name(), Key: row.ID, BM25: score})
		}
	}
	slices.SortStableFunc(all, func(a, b store.Hit) int { return cmp.Compare(b.BM25, a.BM25) })
	for i := range all {
		all[i].Rank, all[i].Score = i+1, 1/float64(store.RRFK+i+1)
	}
	return all
}

// Search leaves most of what matches unread, and gives what scoring all of it
// gives: the same rows in the same order with the same scores, and the same total,
// for every scope and filter, after inserts, updates, moves and deletes.
func TestSearch_IsWhatScoringEveryRowGives(t *testing.T) {
	dir := t.TempDir()
	both := []*store.Table[tables.Note]{tables.Goals, tables.Questions}
	defs := []*store.Def{tables.Goals.Def(), tables.Questions.Def()}
	rapid.Check(t, func(t *rapid.T) {
		db, _ := openMemory(t, dir)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rows := map[string]indexed{}
		keys := rapid.IntRange(1, 500).Draw(t, "keys")
		added := 0
		for range rapid.IntRange(1, 4).Draw(t, "writes") {
			if _, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
				for range rapid.IntRange(1, keys).Draw(t, "rows") {
					table := both[random.IntN(2)]
					id := fmt.Sprintf("%s-%d", table.Name(), random.IntN(keys))
					old, there := rows[id]
					if there && random.IntN(4) == 0 {
						delete(rows, id)
						if err := table.Delete(tx, id); err != nil {
							return err
						}
						continue
					}
					var text []string
					for range random.IntN(8) {
						text = append(text, words[random.IntN(1+random.IntN(len(words)))])
					}
					n := note(id, entities[random.IntN(1+random.IntN(len(entities)))], strings.Join(text, " "))
					if !there {
						old = indexed{table: table, at: added}
						added++
					}
					old.Note = n
					rows[id] = old
					if err := table.Put(tx, n); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, scope := range []store.Scope{store.Owner(), store.ScopeOf([]string{"*"}), store.ScopeOf([]string{"acme", "beta"}), store.ScopeOf(nil)} {
			r := db.View(scope)
			for _, query := range []string{"alpha", "charlie", "alpha bravo", "delta alpha RULE-A002", strings.Join(words, " "), "acme alpha", "nowhere", "the"} {
				for _, accept := range []func(*store.Def, string) bool{nil, func(_ *store.Def, key string) bool { return strings.HasSuffix(key, "3") }} {
					want := ranking(rows, scope, query, accept)
					q := store.SearchQuery{Text: query, Tables: defs, Accept: accept, Limit: rapid.SampledFrom([]int{1, 3, 20, 100}).Draw(t, "limit"), Bind: "b"}
					total := len(want)
					for pages := 0; pages < 3; pages++ {
						got, err := r.Search(q)
						page := want[:min(q.Limit, len(want))]
						if err != nil || got.Total != total || !slices.Equal(got.Hits, page) {
							t.Fatalf("%q, page %d of %d: %d hits\n%+v, %v\nwant\n%+v", query, pages, total, got.Total, got.Hits, err, page)
						}
						if want = want[len(page):]; (got.Cursor == "") != (len(want) == 0) {
							t.Fatalf("%q: %d hits are left, the cursor is %q", query, len(want), got.Cursor)
						}
						if q.Cursor = got.Cursor; q.Cursor == "" {
							break
						}
					}
				}
			}
			r.Close()
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// An index that was made in another way is made anew when the store is opened; a
// block that can't be read is an error, not a row less.
func TestSearch_OfAnotherFormat(t *testing.T) {
	goals := func(db *store.DB) (store.SearchPage, error) {
		r := db.View(store.Owner())
		defer r.Close()
		return r.Search(store.SearchQuery{Text: "alpha bravo", Tables: []*store.Def{tables.Goals.Def()}})
	}
	m := storetest.NewMemory()
	open := func() *store.DB {
		db, err := store.Open(store.Options{HighWater: filepath.Join(t.TempDir(), "highwater"), Tables: tables.All(), Engine: m})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	mustWrite(t, db, agent("*"), put(note("goal-1", "", "alpha bravo")))
	m.Change(func(key string, v []byte) []byte {
		if key[0] == 'p' {
			v[0]--
		}
		return v
	})
	if _, err := goals(db); problem.CodeOf(err) != "store_damaged" {
		t.Errorf("blocks of another format: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m.Change(func(key string, v []byte) []byte {
		if key == "msearch" {
			return []byte("0/1")
		}
		return v
	})
	db = open()
	if found, err := goals(db); err != nil || found.Total != 1 || found.Hits[0].Key != "goal-1" {
		t.Errorf("after the index was made anew: %+v, %v", found, err)
	}
	sound(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
