package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/engine"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

func TestMain(m *testing.M) {
	if dir := childDir(); dir != "" {
		writeForever(dir)
	}
	goleak.VerifyTestMain(m)
}

var bg = context.Background()

func agent(scope ...string) store.Cause {
	return store.Cause{Actor: messages.Actor{Connection: "conn-1", Name: "Reviewer"}, Scope: store.ScopeOf(scope), Call: "call-1"}
}

func note(id, entity, text string) tables.Note {
	return tables.Note{ID: id, Entity: entity, Text: text, Status: tables.NoteOpen}
}

func put(n tables.Note) func(*store.Tx) error {
	return func(tx *store.Tx) error { return tables.Goals.Put(tx, n) }
}

func mustWrite(t testing.TB, w store.Writer, c store.Cause, f func(*store.Tx) error) store.Receipt {
	t.Helper()
	r, err := w.Write(bg, c, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sound(t testing.TB, db *store.DB) {
	t.Helper()
	rep, err := db.Verify()
	if err != nil || len(rep.Problems) > 0 {
		t.Fatalf("the store is not sound: %v %v", rep.Problems, err)
	}
}

func TestWrite_RowIndexSearchAndJournalAreOneCommit(t *testing.T) {
	db, _ := storetest.InMemory(t)
	rec := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "ship the parser")))
	r := db.View(store.ScopeOf([]string{"acme"}))
	defer r.Close()
	got, err := tables.Goals.Get(r, "goal-1")
	if err != nil || got.Text != "ship the parser" {
		t.Fatalf("%+v, %v", got, err)
	}
	list, err := tables.Goals.List(r, store.Query[tables.Note]{Index: "status", Prefix: store.Tuple{tables.NoteOpen}})
	if err != nil || list.Total != 1 {
		t.Fatalf("by index: %+v, %v", list, err)
	}
	found, err := r.Search(store.SearchQuery{Text: "parsers", Tables: []*store.Def{tables.Goals.Def()}})
	if err != nil || found.Total != 1 || found.Hits[0].Key != "goal-1" {
		t.Fatalf("by text: %+v, %v", found, err)
	}
	m, err := r.Mutations(store.MutationQuery{})
	if err != nil || m.Total != 1 || len(rec.Mutations) != 1 {
		t.Fatalf("journal: %+v, %v", m, err)
	}
	e := m.Items[0]
	if e.Table != "goals" || e.Key != "goal-1" || e.Before != nil || e.Actor.Name != "Reviewer" || e.Call != "call-1" || db.ID(e.Seq) != rec.Mutations[0] {
		t.Errorf("journal entry %+v", e)
	}
	sound(t, db)
}

func TestWrite_WhatChangesNothingIsNotJournaled(t *testing.T) {
	db, _ := storetest.InMemory(t)
	mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "x")))
	if rec := mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "x"))); len(rec.Mutations) != 0 {
		t.Errorf("the same row again: %v", rec.Mutations)
	}
}

func TestWrite_AFailedOneLeavesNoTrace(t *testing.T) {
	db, _ := storetest.InMemory(t)
	boom := errors.New("boom")
	var undone, did bool
	for name, f := range map[string]func(*store.Tx) error{
		"error": func(tx *store.Tx) error {
			if err := tx.Effect(func() (func(), error) { did = true; return func() { undone = true }, nil }); err != nil {
				return err
			}
			return errors.Join(tables.Goals.Put(tx, note("goal-1", "acme", "x")), boom)
		},
		"panic": func(tx *store.Tx) error {
			_ = tables.Goals.Put(tx, note("goal-1", "acme", "x"))
			panic("boom")
		},
		"caller gone": func(tx *store.Tx) error { return tables.Goals.Put(tx, note("goal-1", "acme", "x")) },
	} {
		ctx, cancel := context.WithCancel(bg)
		if name == "caller gone" {
			cancel()
		}
		if _, err := db.Write(ctx, agent("*"), f); err == nil {
			t.Errorf("%s: no error", name)
		}
		cancel()
	}
	if !did || !undone {
		t.Error("the effect was not undone")
	}
	r := db.View(store.Owner())
	defer r.Close()
	if m, _ := r.Mutations(store.MutationQuery{}); m.Total != 0 {
		t.Errorf("journaled: %+v", m.Items)
	}
	if ok, _ := tables.Goals.Has(r, "goal-1"); ok {
		t.Error("the row is there")
	}
	sound(t, db)
}

func TestWriteGroup_EachStandsAlone(t *testing.T) {
	db, _ := storetest.InMemory(t)
	out := db.WriteGroup([]store.Job{
		{Ctx: bg, Cause: agent("*"), Do: put(note("goal-1", "acme", "one"))},
		{Ctx: bg, Cause: agent("*"), Do: func(tx *store.Tx) error {
			_ = tables.Goals.Put(tx, note("goal-2", "acme", "two"))
			return errors.New("no")
		}},
		{Ctx: bg, Cause: agent("*"), Do: func(tx *store.Tx) error {
			if ok, err := tables.Goals.Has(tx, "goal-1"); err != nil || !ok {
				return fmt.Errorf("a write does not see the one before: %v", err)
			}
			if ok, _ := tables.Goals.Has(tx, "goal-2"); ok {
				return errors.New("a write sees a failed one")
			}
			return tables.Goals.Put(tx, note("goal-3", "acme", "three"))
		}},
	})
	if out[0].Err != nil || out[1].Err == nil || out[2].Err != nil {
		t.Fatalf("%v, %v, %v", out[0].Err, out[1].Err, out[2].Err)
	}
	if out[0].Receipt.Last+1 != out[2].Receipt.First {
		t.Errorf("the journal has a gap: %+v, %+v", out[0].Receipt, out[2].Receipt)
	}
	sound(t, db)
}

func TestWriteGroup_MoreThanOneBatchFits(t *testing.T) {
	m := storetest.NewMemory()
	m.MaxOps, m.MaxBytes = 64, 1<<20
	db, err := store.Open(store.Options{HighWater: t.TempDir() + "/hw", Tables: tables.All(), Engine: m})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var jobs []store.Job
	for i := range 30 {
		jobs = append(jobs, store.Job{Ctx: bg, Cause: agent("*"), Do: put(note(fmt.Sprintf("goal-%d", i), "acme", "x"))})
	}
	jobs = append(jobs, store.Job{Ctx: bg, Cause: agent("*"), Do: func(tx *store.Tx) error {
		for i := range 100 {
			if err := tables.Goals.Put(tx, note(fmt.Sprintf("goal-big-%d", i), "acme", "x")); err != nil {
				return err
			}
		}
		return nil
	}})
	out := db.WriteGroup(jobs)
	for i := range 30 {
		if out[i].Err != nil {
			t.Errorf("%d: %v", i, out[i].Err)
		}
	}
	if problem.CodeOf(out[30].Err) != "write_too_big" {
		t.Errorf("the one that fits no batch: %v", out[30].Err)
	}
	if n := db.Rows(tables.Goals.Def()); n != 30 {
		t.Errorf("%d rows", n)
	}
	sound(t, db)
}

func TestWrite_AfterADiskErrorNothingIsTakenForSaved(t *testing.T) {
	db, m := storetest.InMemory(t)
	mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "x")))
	undone := false
	m.Fail()
	_, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
		if err := tx.Effect(func() (func(), error) { return func() { undone = true }, nil }); err != nil {
			return err
		}
		return tables.Goals.Put(tx, note("goal-2", "acme", "x"))
	})
	if problem.CodeOf(err) != "store_write_failed" || !errors.Is(err, storetest.ErrDisk) || !undone {
		t.Fatalf("%v, undone %v", err, undone)
	}
	if _, err := db.Write(bg, agent("*"), put(note("goal-3", "acme", "x"))); problem.CodeOf(err) != "store_write_failed" {
		t.Errorf("the next write: %v", err)
	}
	sound(t, db)
}

func TestPreview_ShowsTheChangeAndMakesNone(t *testing.T) {
	db, _ := storetest.InMemory(t)
	mustWrite(t, db, agent("*"), put(note("goal-1", "acme", "old")))
	effect := false
	changes, err := db.Preview(bg, agent("*"), func(tx *store.Tx) error {
		if err := tx.Effect(func() (func(), error) { effect = true; return nil, nil }); err != nil {
			return err
		}
		return errors.Join(put(note("goal-1", "acme", "new"))(tx), put(note("goal-2", "acme", "more"))(tx))
	})
	if err != nil || len(changes) != 2 || effect {
		t.Fatalf("%+v, %v, effect %v", changes, err, effect)
	}
	if string(changes[1].Before) != "null" || changes[0].Table != "goals" {
		t.Errorf("%+v", changes)
	}
	r := db.View(store.Owner())
	defer r.Close()
	if got, _ := tables.Goals.Get(r, "goal-1"); got.Text != "old" {
		t.Errorf("the preview wrote: %+v", got)
	}
}

func TestBearers_ARevokedOneIsSeenByTheNextCall(t *testing.T) {
	db, _ := storetest.InMemory(t)
	b := tables.NewBearers(db)
	sum := [32]byte{1, 2, 3}
	row := messages.ConnectionRow{Authority: messages.Authority{Connection: "conn-1", Name: "A", Scope: []string{"*"}}, BearerSHA256: fmt.Sprintf("%x", sum)}
	if _, ok, err := b.Find(sum); ok || err != nil {
		t.Fatalf("found before it was minted: %v", err)
	}
	mustWrite(t, db, store.System("owner", "mint"), func(tx *store.Tx) error { return tables.Connections.Insert(tx, row) })
	if got, ok, err := b.Find(sum); !ok || err != nil || got.Name != "A" {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	now := time.Now()
	row.Revoked = &now
	mustWrite(t, db, store.System("owner", "revoke"), func(tx *store.Tx) error { return tables.Connections.Update(tx, row) })
	if got, ok, _ := b.Find(sum); !ok || got.Revoked == nil {
		t.Errorf("still good after the revocation: %+v", got)
	}
	other := row
	other.Connection = "conn-2"
	if _, err := db.Write(bg, store.System("owner", ""), func(tx *store.Tx) error { return tables.Connections.Insert(tx, other) }); problem.CodeOf(err) != "already_exists" {
		t.Errorf("two connections with one bearer: %v", err)
	}
}

func BenchmarkBearers_Find(b *testing.B) {
	db, _ := storetest.InMemory(b)
	for i := range 1000 {
		sum := [32]byte{byte(i), byte(i >> 8)}
		mustWrite(b, db, store.System("owner", ""), func(tx *store.Tx) error {
			return tables.Connections.Insert(tx, messages.ConnectionRow{Authority: messages.Authority{Connection: fmt.Sprintf("conn-%06x", i), Scope: []string{"*"}}, BearerSHA256: fmt.Sprintf("%x", sum)})
		})
	}
	look := tables.NewBearers(db)
	for b.Loop() {
		if _, ok, _ := look.Find([32]byte{7}); !ok {
			b.Fatal("gone")
		}
	}
}

// An opening that fails leaves nothing behind: goleak sees the mark's goroutine.
func TestOpen_AFailedOneLetsGoOfTheHighWaterFile(t *testing.T) {
	m := storetest.NewMemory()
	if err := m.Apply([]engine.Op{{Key: []byte("mschema"), Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	o := store.Options{HighWater: filepath.Join(t.TempDir(), "highwater"), Tables: tables.All(), Engine: m}
	if _, err := store.Open(o); problem.CodeOf(err) != "store_damaged" {
		t.Fatalf("without a sealing key: %v", err)
	}
	m = storetest.NewMemory()
	m.Fail()
	o.Engine = m
	if _, err := store.Open(o); !errors.Is(err, storetest.ErrDisk) {
		t.Fatalf("on a disk that fails: %v", err)
	}
	goleak.VerifyNone(t)
}

// The clock went back between two writes: the later one is older, and what is
// below it in the journal is not.
func TestMutations_SinceHoldsAlsoWhenTheClockWentBack(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	db, err := store.Open(store.Options{HighWater: filepath.Join(t.TempDir(), "highwater"), Tables: tables.All(), Engine: storetest.NewMemory(),
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mustWrite(t, db, agent("*"), put(note("goal-1", "", "at noon")))
	now = now.Add(-2 * time.Hour)
	mustWrite(t, db, agent("*"), put(note("goal-2", "", "later, at ten")))
	r := db.View(store.Owner())
	defer r.Close()
	page, err := r.Mutations(store.MutationQuery{Since: now.Add(time.Hour)})
	if err != nil || page.Total != 1 || len(page.Items) != 1 || page.Items[0].Key != "goal-1" {
		t.Errorf("since eleven: %+v, %v", page, err)
	}
}
