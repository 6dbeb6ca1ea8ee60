package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

func textOf(t testing.TB, db *store.DB, key string) string {
	t.Helper()
	r := db.View(store.Owner())
	defer r.Close()
	got, err := tables.Goals.Get(r, key)
	if problem.CodeOf(err) == "not_found" {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return got.Text
}

func TestRevert_EachKindOfChangeAndARevert(t *testing.T) {
	db, _ := storetest.InMemory(t)
	insert := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "one")))
	update := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "two")))
	remove := mustWrite(t, db, agent("*"), func(tx *store.Tx) error { return tables.Goals.Delete(tx, "goal-1") })

	revert := func(r store.Receipt) store.Receipt {
		t.Helper()
		out, err := store.Revert(bg, db, agent("*"), r.First, false)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, step := range []struct {
		of   store.Receipt
		want string
		keep *store.Receipt
	}{
		{of: remove, want: "two"}, {of: update, want: "one"}, {of: insert, want: "(none)", keep: new(store.Receipt)},
	} {
		out := revert(step.of)
		if got := textOf(t, db, "goal-1"); got != step.want {
			t.Fatalf("after the revert: %q, want %q", got, step.want)
		}
		if step.keep != nil {
			revert(out) // of the revert
			if got := textOf(t, db, "goal-1"); got != "one" {
				t.Fatalf("after the revert of the revert: %q", got)
			}
		}
	}
	r := db.View(store.Owner())
	defer r.Close()
	m, err := r.Mutations(store.MutationQuery{Table: "goals", Key: "goal-1", Reverts: true})
	if err != nil || m.Total != 4 || m.Items[3].Reverts != remove.First {
		t.Errorf("the journal has %d reverts: %+v, %v", m.Total, m.Items, err)
	}
	found, err := r.Search(store.SearchQuery{Text: "one", Tables: []*store.Def{tables.Goals.Def()}})
	if err != nil || found.Total != 1 {
		t.Errorf("what came back is not found: %+v, %v", found, err)
	}
	sound(t, db)
}

func TestRevert_RefusesWithWhatStandsInTheWay(t *testing.T) {
	db, _ := storetest.InMemory(t)
	first := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "one")))
	second := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "two")))
	third := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "three")))
	_, err := store.Revert(bg, db, agent("*"), second.First, false)
	var c *store.Conflict
	if !errors.As(err, &c) || problem.CodeOf(err) != "revert_conflict" || len(c.Entries) != 1 || c.Entries[0].Seq != third.First {
		t.Fatalf("%v, %+v", err, c)
	}
	if v := problem.Of(err).Valid; len(v) != 1 || v[0] != third.Mutations[0] {
		t.Errorf("the error names %v", v)
	}
	if got := textOf(t, db, "goal-1"); got != "three" {
		t.Errorf("the refused revert wrote %q", got)
	}
	if _, err := store.Revert(bg, db, agent("*"), second.First, true); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, db, "goal-1"); got != "one" {
		t.Errorf("with cascade: %q", got)
	}
	// A change and its undoing leave nothing in the way of what came before.
	if _, err := store.Revert(bg, db, agent("*"), first.First, false); err != nil {
		t.Errorf("the row is as the first write left it, but: %v", err)
	}
	if _, err := store.Revert(bg, db, agent("*"), first.First, false); problem.CodeOf(err) != "revert_conflict" {
		t.Errorf("the same revert twice: %v", err)
	}
	sound(t, db)
}

func TestScope_WritesOutsideAreRefusedAndLookLikeNothing(t *testing.T) {
	db, _ := storetest.InMemory(t)
	there := mustWrite(t, db, agent("*"), put(note("goal-1", "beta", "theirs")))
	acme := agent("acme")
	_, notYours := db.Write(bg, acme, func(tx *store.Tx) error { return tables.Goals.Update(tx, note("goal-1", "acme", "mine")) })
	_, notThere := db.Write(bg, acme, func(tx *store.Tx) error { return tables.Goals.Update(tx, note("goal-2", "acme", "mine")) })
	if problem.Of(notYours).Message != fmt.Sprintf("there is no goal %q", "goal-1") || problem.CodeOf(notThere) != "not_found" || problem.Of(notYours).Hint != problem.Of(notThere).Hint {
		t.Errorf("%v / %v", notYours, notThere)
	}
	for name, c := range map[string]struct {
		cause store.Cause
		row   tables.Note
		code  string
	}{
		"into another entity":  {acme, note("goal-3", "beta", "x"), "outside_scope"},
		"without an entity":    {acme, note("goal-3", "", "x"), "outside_scope"},
		"with no scope at all": {agent(), note("goal-3", "acme", "x"), "outside_scope"},
	} {
		if _, err := db.Write(bg, c.cause, put(c.row)); problem.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := store.Revert(bg, db, acme, there.First, false); problem.CodeOf(err) != "not_found" {
		t.Errorf("revert of what is not theirs: %v", err)
	}
	r := db.View(acme.Scope)
	defer r.Close()
	if _, err := r.Entry(there.First); problem.CodeOf(err) != "not_found" {
		t.Errorf("its journal entry: %v", err)
	}
	for _, id := range []string{"mut-0000000000000000", "mut-zz", "nonsense", there.Mutations[0] + "0"} {
		if seq, err := db.Seq(id); err == nil {
			if _, err = r.Entry(seq); problem.CodeOf(err) != "not_found" {
				t.Errorf("%s: %v", id, err)
			}
		} else if problem.CodeOf(err) != "not_found" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestScope_TablesOfTheDaemonAreForTheOwnerAlone(t *testing.T) {
	db, _ := storetest.InMemory(t)
	mustWrite(t, db, store.System("daemon", ""), func(tx *store.Tx) error {
		return tables.ReadMarks.Put(tx, tables.ReadMark{Connection: "conn-1", High: 3})
	})
	r := db.View(store.ScopeOf([]string{"*"}))
	defer r.Close()
	if _, err := tables.ReadMarks.Get(r, "conn-1"); problem.CodeOf(err) != "not_found" {
		t.Errorf("read: %v", err)
	}
	if m, err := r.Mutations(store.MutationQuery{}); err != nil || m.Total != 0 {
		t.Errorf("in the journal: %+v, %v", m, err)
	}
	if _, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
		return tables.ReadMarks.Put(tx, tables.ReadMark{Connection: "conn-1", High: 9})
	}); err == nil {
		t.Error("a connection wrote it")
	}
	mustWrite(t, db, agent("acme"), func(tx *store.Tx) error {
		return tx.As(func() error { return tables.ReadMarks.Put(tx, tables.ReadMark{Connection: "conn-1", High: 9}) })
	})
}

// A look at the last changes is bounded by entries and by bytes, and shows no
// more than the scope sees.
func TestJournal_RecentIsBounded(t *testing.T) {
	db, _ := storetest.InMemory(t)
	for i, e := range []string{"acme", "beta", "acme", "beta"} {
		if _, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
			return tables.Goals.Put(tx, note(fmt.Sprintf("goal-%d", i), e, strings.Repeat("x", 1000)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		scope          string
		entries, bytes int
		want           string
	}{
		{"*", 10, 1 << 20, "[goal-3 goal-2 goal-1 goal-0]"}, {"*", 2, 1 << 20, "[goal-3 goal-2]"}, {"*", 10, 2500, "[goal-3]"},
		{"acme", 10, 1 << 20, "[goal-2 goal-0]"}, {"acme", 1, 1 << 20, "[]"}, {"*", 10, 10, "[]"},
	} {
		r := db.View(store.ScopeOf([]string{c.scope}))
		got, err := r.Recent(c.entries, c.bytes)
		r.Close()
		keys := []string{}
		for _, e := range got {
			keys = append(keys, e.Key)
			if want := []string{"acme", "beta"}[e.Seq%2^1]; e.Entity != want {
				t.Errorf("%s is about %q, want %q", e.Key, e.Entity, want)
			}
		}
		if fmt.Sprint(keys) != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, keys, err)
		}
	}
}

// More entries than are kept decoded: each is still the one of its number.
func TestJournal_RecentOfManyEntries(t *testing.T) {
	db, _ := storetest.InMemory(t)
	const n = 600
	mustWrite(t, db, agent("*"), func(tx *store.Tx) error {
		for i := range n {
			if err := tables.Goals.Put(tx, note(fmt.Sprintf("goal-%d", i+1), "", "")); err != nil {
				return err
			}
		}
		return nil
	})
	r := db.View(store.Owner())
	defer r.Close()
	for _, look := range []int{n, 100, n} {
		got, err := r.Recent(look, 1<<20)
		if err != nil || len(got) != look {
			t.Fatalf("%d entries, %v; want %d", len(got), err, look)
		}
		for i, e := range got {
			if want := fmt.Sprintf("goal-%d", n-i); e.Key != want {
				t.Fatalf("entry %d is of %s, want %s", i, e.Key, want)
			}
		}
	}
}
