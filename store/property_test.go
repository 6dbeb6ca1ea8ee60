package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

var (
	entities = []string{"", "acme", "beta", "gamma"}
	words    = []string{"alpha", "bravo", "charlie", "delta", "queryKnowledge", "RULE-A002"}
)

func openMemory(t *rapid.T, dir string) (*store.DB, *storetest.Memory) {
	m := storetest.NewMemory()
	own, err := os.MkdirTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(store.Options{HighWater: filepath.Join(own, "highwater"), Tables: tables.All(), Engine: m})
	if err != nil {
		t.Fatal(err)
	}
	return db, m
}

type step struct {
	key, entity, text string
	del               bool
	revert            int // of the n-th journal entry, 1-based; 0: none
}

func steps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			key:    fmt.Sprintf("goal-%d", rapid.IntRange(0, 11).Draw(t, "key")),
			entity: rapid.SampledFrom(entities).Draw(t, "entity"),
			text:   strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 6).Draw(t, "text"), " "),
			del:    rapid.IntRange(0, 5).Draw(t, "del") == 0,
			revert: max(0, rapid.IntRange(-20, 12).Draw(t, "revert")),
		}
	}), 1, 40).Draw(t, "steps")
}

func (s step) do(tx *store.Tx) error {
	var err error
	switch {
	case s.revert > 0:
		err = tx.Revert(uint64(s.revert), true)
	case s.del:
		err = tables.Goals.Delete(tx, s.key)
	default:
		err = tables.Goals.Put(tx, note(s.key, s.entity, s.text))
	}
	if c := problem.CodeOf(err); c == "not_found" {
		return nil
	}
	return err
}

// Any sequence of writes leaves a sound store whose rows, lists and search
// results are those of a plain map.
func TestStore_IsAMapWithAMemory(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		db, m := openMemory(t, dir)
		model := map[string]tables.Note{}
		for _, s := range steps(t) {
			before := db.Rows(tables.Goals.Def())
			seq, _ := db.Head()
			if _, err := db.Write(bg, agent("*"), s.do); err != nil {
				t.Fatal(err)
			}
			now, _ := db.Head()
			if now == seq && before != db.Rows(tables.Goals.Def()) {
				t.Fatal("a change without a journal entry")
			}
			r := db.View(store.Owner())
			if now > seq { // replay what the journal says
				e, err := r.Entry(now)
				if err != nil {
					t.Fatal(err)
				}
				if e.After == nil {
					delete(model, e.Key)
				} else {
					var n tables.Note
					if err := json.Unmarshal(e.After, &n); err != nil {
						t.Fatal(err)
					}
					model[e.Key] = n
					if s.revert == 0 && (n.Text != s.text || n.Entity != s.entity) {
						t.Fatalf("%+v was written as %+v", s, n)
					}
				}
			}
			r.Close()
		}
		rep, err := db.Verify()
		if err != nil || len(rep.Problems) > 0 {
			t.Fatalf("%v, %v", rep.Problems, err)
		}
		r := db.View(store.Owner())
		defer r.Close()
		all, err := tables.Goals.All(r, store.Query[tables.Note]{})
		if err != nil || len(all) != len(model) {
			t.Fatalf("%d rows, want %d; %v", len(all), len(model), err)
		}
		for _, w := range words {
			want := map[string]bool{}
			for k, n := range model {
				if strings.Contains(n.Text, w) {
					want[k] = true
				}
			}
			got, err := r.Search(store.SearchQuery{Text: w, Tables: []*store.Def{tables.Goals.Def()}, Limit: 100})
			if err != nil || got.Total != len(want) {
				t.Fatalf("%q: %d hits of %v; %v", w, got.Total, want, err)
			}
			for _, h := range got.Hits {
				if !want[h.Key] {
					t.Fatalf("%q finds %s", w, h.Key)
				}
			}
		}
		// What is left after everything is deleted is the journal alone.
		if _, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
			for k := range model {
				if err := tables.Goals.Delete(tx, k); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		m.Change(func(key string, v []byte) []byte {
			if strings.IndexByte("riqpod", key[0]) >= 0 {
				t.Fatalf("left behind: %q", key)
			}
			return v
		})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// seen is all that a connection can see of the store, as text.
func seen(t *rapid.T, db *store.DB, scope store.Scope) string {
	r := db.View(scope)
	defer r.Close()
	var b strings.Builder
	for _, q := range []store.Query[tables.Note]{{}, {Limit: 2}, {Index: "status", Reverse: true, Limit: 3}, {Index: "status", Where: func(n *tables.Note) bool { return len(n.Text) > 6 }, Limit: 1}} {
		q.Bind = "b"
		for {
			p, err := tables.Goals.List(r, q)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%+v %d\n", p.Items, p.Total)
			if q.Cursor = p.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	for _, w := range append(words, "alpha delta", "nothing at all") {
		q := store.SearchQuery{Text: w, Tables: []*store.Def{tables.Goals.Def()}, Limit: 2, Bind: "b"}
		for {
			p, err := r.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s: %+v %d\n", w, p.Hits, p.Total)
			if q.Cursor = p.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	for _, q := range []store.MutationQuery{{}, {Table: "goals", Key: "goal-1"}, {Connection: "conn-1"}, {Connection: "conn-2"}, {Reverts: true}, {Table: "nonsense"}} {
		q.Limit, q.Bind = 3, "b"
		for {
			p, err := r.Mutations(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Items {
				fmt.Fprintf(&b, "%s %s %s %s %s\n", e.Key, e.Before, e.After, e.Actor.Name, e.Reason)
			}
			fmt.Fprintf(&b, "of %d\n", p.Total)
			if q.Cursor = p.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	for i := range 12 {
		key := fmt.Sprintf("goal-%d", i)
		n, err := tables.Goals.Get(r, key)
		fmt.Fprintf(&b, "%s %+v %v\n", key, n, err)
	}
	return b.String()
}

// Two stores that differ only in what is out of a scope can't be told apart
// from within it: not by rows, totals, ranks, scores, errors or the journal.
func TestScope_WhatIsOutsideLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		scope := store.ScopeOf(rapid.SampledFrom([][]string{{}, {"acme"}, {"acme", "beta"}, {"gamma"}, {"nobody"}}).Draw(t, "scope"))
		full, _ := openMemory(t, dir)
		part, _ := openMemory(t, dir)
		for i, s := range steps(t) {
			s.revert = 0
			// Rows of different entities have different keys here: who may
			// write over what is another test's subject.
			s.key = fmt.Sprintf("%s-%d", s.entity, i%5)
			c := agent("*")
			if i%3 == 0 {
				c.Actor.Connection = "conn-2"
			}
			if _, err := full.Write(bg, c, s.do); err != nil {
				t.Fatal(err)
			}
			if s.entity != "" && scope.Has(s.entity) {
				if _, err := part.Write(bg, c, s.do); err != nil {
					t.Fatal(err)
				}
			}
		}
		a, b := seen(t, full, scope), seen(t, part, scope)
		if a != b {
			t.Fatalf("with the others' rows:\n%s\nwithout:\n%s", a, b)
		}
		if err := full.Close(); err != nil {
			t.Fatal(err)
		}
		if err := part.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Rows that are there all along are shown exactly once, whatever is written
// between two pages.
func TestPaging_IsStableUnderWrites(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		db, _ := openMemory(t, dir)
		for _, s := range steps(t) {
			s.revert = 0
			if _, err := db.Write(bg, agent("*"), s.do); err != nil {
				t.Fatal(err)
			}
		}
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		reverse := rapid.Bool().Draw(t, "reverse")
		text := rapid.SampledFrom(words).Draw(t, "query") + " " + rapid.SampledFrom(words).Draw(t, "query")
		read := func(cursor string, search bool) (keys []string, next string, total int) {
			r := db.View(store.ScopeOf([]string{"*"}))
			defer r.Close()
			if search {
				p, err := r.Search(store.SearchQuery{Text: text, Tables: []*store.Def{tables.Goals.Def()}, Limit: limit, Cursor: cursor, Bind: "b"})
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range p.Hits {
					keys = append(keys, h.Key)
				}
				return keys, p.Cursor, p.Total
			}
			p, err := tables.Goals.List(r, store.Query[tables.Note]{Reverse: reverse, Limit: limit, Cursor: cursor, Bind: "b"})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range p.Items {
				keys = append(keys, n.ID)
			}
			return keys, p.Cursor, p.Total
		}
		for _, search := range []bool{false, true} {
			stay := map[string]bool{}
			for cursor := ""; ; {
				keys, next, total := read(cursor, search)
				for _, k := range keys {
					if stay[k] {
						t.Fatalf("%s is shown twice without a write", k)
					}
					stay[k] = true
				}
				if cursor = next; cursor == "" {
					if total != len(stay) {
						t.Fatalf("total %d, shown %d", total, len(stay))
					}
					break
				}
			}
			shown := map[string]int{}
			for cursor, n := "", 0; ; n++ {
				keys, next, _ := read(cursor, search)
				for _, k := range keys {
					shown[k]++
				}
				if cursor = next; cursor == "" {
					break
				}
				s := step{key: fmt.Sprintf("goal-%d", rapid.IntRange(0, 30).Draw(t, "key")), entity: "acme",
					text: strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "text"), " "), del: rapid.Bool().Draw(t, "del")}
				delete(stay, s.key)
				if _, err := db.Write(bg, agent("*"), s.do); err != nil {
					t.Fatal(err)
				}
			}
			for k := range stay {
				if shown[k] != 1 {
					t.Fatalf("search %v: %s was there all along and is shown %d times", search, k, shown[k])
				}
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCursor_OfAnotherQueryIsRefused(t *testing.T) {
	db, _ := storetest.InMemory(t)
	for i := range 5 {
		mustWrite(t, db, agent("*"), put(note(fmt.Sprintf("goal-%d", i), "acme", "alpha")))
	}
	r := db.View(store.ScopeOf([]string{"*"}))
	defer r.Close()
	p, err := tables.Goals.List(r, store.Query[tables.Note]{Limit: 2, Bind: "conn-1 list"})
	if err != nil || p.Cursor == "" {
		t.Fatal(err)
	}
	if _, err := tables.Goals.List(r, store.Query[tables.Note]{Limit: 2, Bind: "conn-2 list", Cursor: p.Cursor}); problem.CodeOf(err) != "cursor_invalid" {
		t.Errorf("another connection's: %v", err)
	}
	if _, err := r.Search(store.SearchQuery{Text: "alpha", Tables: []*store.Def{tables.Goals.Def()}, Bind: "conn-1 list", Cursor: p.Cursor}); problem.CodeOf(err) != "cursor_invalid" {
		t.Errorf("a list's for a search: %v", err)
	}
}
