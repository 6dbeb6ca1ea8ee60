package main

import (
	"context"
	"testing"

	"sophia/hostd/ownerapi"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

// A change says what undid it, in the list and alone.
func TestJournal_SaysWhatUndidAChange(t *testing.T) {
	ctx := context.Background()
	db, _ := storetest.InMemory(t)
	write := func(f func(*store.Tx) error) {
		t.Helper()
		if _, err := db.Write(ctx, store.System("test", "test"), f); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"one", "two"} {
		write(func(tx *store.Tx) error {
			return tables.Goals.Put(tx, tables.Note{ID: "goal-1", Entity: "acme", Text: text, Status: tables.NoteOpen})
		})
	}
	write(func(tx *store.Tx) error {
		return tables.Goals.Put(tx, tables.Note{ID: "goal-2", Entity: "acme", Text: "other", Status: tables.NoteOpen})
	})
	write(func(tx *store.Tx) error { return tx.Revert(2, false) })

	if _, err := db.Write(ctx, store.System("test", "test"), func(tx *store.Tx) error {
		return tables.Profiles.Put(tx, messages.LaunchProfile{ID: "codex-reviewer"})
	}); err != nil {
		t.Fatal(err)
	}

	j := journal{&sophiad{db: db}}
	if _, err := j.Revert(ctx, 5, ""); problem.CodeOf(err) != "mutation_not_revertible" {
		t.Errorf("undoing a row that Sophia keeps for itself: %v", err)
	}
	page, err := j.List(ctx, ownerapi.JournalQuery{})
	if err != nil || len(page.Items) != 5 {
		t.Fatalf("%+v, %v", page, err)
	}
	want := map[uint64]uint64{2: 4}
	for _, m := range page.Items {
		if m.Reverted != want[m.Seq] {
			t.Errorf("change %d: undone by %d, want %d", m.Seq, m.Reverted, want[m.Seq])
		}
		alone, err := j.Get(ctx, m.Seq)
		if err != nil || alone.Reverted != m.Reverted {
			t.Errorf("change %d alone: %+v, %v", m.Seq, alone, err)
		}
	}
}

// The owner's key is a file that an agent with a shell can read: it writes
// nothing by itself.
func TestOwnersKey_AsksBeforeEveryWrite(t *testing.T) {
	write := registry.Tool{Spec: registry.Spec{Effects: registry.Effects{Writes: []string{"wiki_pages"}}}}
	if !registry.Asks(cliAuthority(), &write) {
		t.Error("the key alone writes")
	}
	read := registry.Tool{Spec: registry.Spec{Effects: registry.Effects{Reads: []string{"wiki_pages"}}}}
	if registry.Asks(cliAuthority(), &read) {
		t.Error("the key alone can't read")
	}
}
