package storetest

import (
	"path/filepath"
	"testing"

	"sophia/store"
	"sophia/store/tables"
)

// InMemory opens a store that is gone after the test, with all tables.
func InMemory(t testing.TB) (*store.DB, *Memory) {
	t.Helper()
	m := NewMemory()
	db, err := store.Open(store.Options{HighWater: filepath.Join(t.TempDir(), "highwater"), Tables: tables.All(), Engine: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, m
}

// OnDisk opens a store below dir, with all tables. The caller closes it.
func OnDisk(t testing.TB, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(DiskOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// DiskOptions are those of OnDisk.
func DiskOptions(dir string) store.Options {
	return store.Options{Dir: filepath.Join(dir, "store"), HighWater: filepath.Join(dir, "highwater"), Tables: tables.All()}
}
