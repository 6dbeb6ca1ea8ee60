package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

// What is counted is what a list would show, for every scope and after any
// sequence of writes.
func TestTally_CountsWhatAListShows(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		db, _ := openMemory(t, dir)
		defer db.Close()
		for _, s := range steps(t) {
			if _, err := db.Write(bg, agent("*"), s.do); err != nil {
				t.Fatal(err)
			}
		}
		for _, scope := range []store.Scope{store.Owner(), store.ScopeOf([]string{"*"}), store.ScopeOf([]string{"acme"}), store.ScopeOf([]string{"beta", "gamma"}), store.ScopeOf(nil)} {
			r := db.View(scope)
			all, err := tables.Goals.All(r, store.Query[tables.Note]{})
			if err != nil {
				t.Fatal(err)
			}
			n, err := tables.Goals.Count(r)
			if err != nil || n != len(all) {
				t.Fatalf("counted %d, %v; listed %d", n, err, len(all))
			}
			by, err := tables.Goals.Tally(r, "status")
			if err != nil || by[tables.NoteOpen] != len(all) {
				t.Fatalf("tallied %v, %v; listed %d", by, err, len(all))
			}
			// The first rows are those of the whole list.
			for _, reverse := range []bool{false, true} {
				q := store.Query[tables.Note]{Index: "status", Prefix: store.Tuple{tables.NoteOpen}, Reverse: reverse}
				whole, err := tables.Goals.All(r, q)
				if err != nil {
					t.Fatal(err)
				}
				q.Limit = 3
				top, err := tables.Goals.Top(r, q)
				if err != nil || fmt.Sprint(top) != fmt.Sprint(whole[:min(3, len(whole))]) {
					t.Fatalf("%v, %v; the list is %v", top, err, whole)
				}
			}
			r.Close()
		}
	})
}

// A store that was written before there were counts, or by another set of them,
// gets them when it is opened; a wrong count is found.
func TestTally_IsMadeAnewAndVerified(t *testing.T) {
	water := filepath.Join(t.TempDir(), "highwater")
	m := storetest.NewMemory()
	open := func() *store.DB {
		t.Helper()
		db, err := store.Open(store.Options{HighWater: water, Tables: tables.All(), Engine: m})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	if _, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
		for key, e := range map[string]string{"goal-1": "acme", "goal-2": "acme", "goal-3": "beta"} {
			if err := tables.Goals.Put(tx, note(key, e, "x")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m.Change(func(key string, v []byte) []byte {
		switch {
		case key[0] == 'n', key[0] == 'i' && key[3] >= 128:
			return nil
		case strings.HasPrefix(key, "mkept"):
			return []byte("other")
		}
		return v
	})
	if rep, err := db.Verify(); err != nil || len(rep.Problems) == 0 {
		t.Errorf("missing counts are not found: %v, %v", rep, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	defer db.Close()
	r := db.View(store.ScopeOf([]string{"acme"}))
	n, err := tables.Goals.Count(r)
	if top, terr := tables.Goals.Top(r, store.Query[tables.Note]{Index: "status", Limit: 5}); terr != nil || len(top) != 2 {
		t.Errorf("the first rows are %v, %v", top, terr)
	}
	r.Close()
	if rep, verr := db.Verify(); n != 2 || err != nil || verr != nil || len(rep.Problems) > 0 {
		t.Errorf("%d, %v; %v, %v", n, err, rep.Problems, verr)
	}
}
