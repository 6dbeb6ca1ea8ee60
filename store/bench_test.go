package store_test

import (
	"fmt"
	"testing"

	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

// What a write costs besides the disk.
func BenchmarkWrite_WithoutTheDisk(b *testing.B) {
	db, _ := storetest.InMemory(b)
	i := 0
	for b.Loop() {
		i++
		mustWrite(b, db, agent("*"), func(tx *store.Tx) error {
			return tables.Questions.Put(tx, tables.Note{ID: fmt.Sprintf("question-%d", i), Status: tables.NoteOpen})
		})
	}
}

func BenchmarkWrite_Synced(b *testing.B) {
	db := storetest.OnDisk(b, b.TempDir())
	defer db.Close()
	i := 0
	for b.Loop() {
		i++
		mustWrite(b, db, agent("*"), func(tx *store.Tx) error {
			return tables.Questions.Put(tx, tables.Note{ID: fmt.Sprintf("question-%d", i), Status: tables.NoteOpen})
		})
	}
}
