package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// A full disk must neither end the process (badger's log is a mapping) nor put
// the store in doubt: writes are refused until there is room again.
func TestStore_FullDiskRefusesAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256m,mode=700"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	db, err := store.Open(store.Options{Dir: filepath.Join(dir, "store"), HighWater: filepath.Join(dir, "hw"), Tables: tables.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	write := func(id string) error {
		_, err := db.Write(t.Context(), store.System("test", ""), func(tx *store.Tx) error {
			return tables.Goals.Insert(tx, tables.Note{ID: id, Text: "sail", Status: tables.NoteOpen})
		})
		return err
	}
	if err := write("goal-1"); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(piece)
	}
	f.Close()
	if err := write("goal-2"); problem.CodeOf(err) != "disk_full" {
		t.Fatalf("on a full disk: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := write("goal-3"); err != nil {
		t.Fatalf("after there was room again: %v", err)
	}
	r := db.View(store.Owner())
	defer r.Close()
	for id, want := range map[string]bool{"goal-1": true, "goal-2": false, "goal-3": true} {
		if got, err := tables.Goals.Has(r, id); err != nil || got != want {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}
