package store_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/engine"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

const childVariable = "SOPHIA_STORE_TEST_CHILD"

func childDir() string { return os.Getenv(childVariable) }

// writeForever is the child process: it says each write's number on stdout
// after the write was acknowledged, and is killed at some point.
func writeForever(dir string) {
	db, err := store.Open(storetest.DiskOptions(dir))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := int(db.Rows(tables.Goals.Def())); ; i++ {
		_, err := db.Write(bg, agent("*"), func(tx *store.Tx) error {
			if err := tables.Goals.Put(tx, note(fmt.Sprintf("goal-%06d", i), "acme", strings.Repeat("word ", i%50))); err != nil {
				return err
			}
			return tables.Questions.Put(tx, note(fmt.Sprintf("question-%06d", i), "acme", "why"))
		})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

func TestStore_KilledAtAnyTimeKeepsEveryAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	acked := -1
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			i, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			acked = max(acked, i)
			if n == 40+13*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
	}
	db := storetest.OnDisk(t, dir)
	defer db.Close()
	r := db.View(store.Owner())
	defer r.Close()
	for i := range acked + 1 {
		for table, key := range map[*store.Table[tables.Note]]string{tables.Goals: fmt.Sprintf("goal-%06d", i), tables.Questions: fmt.Sprintf("question-%06d", i)} {
			if _, err := table.Get(r, key); err != nil {
				t.Fatalf("acknowledged %d, but: %v", acked, err)
			}
		}
	}
	if g, q := db.Rows(tables.Goals.Def()), db.Rows(tables.Questions.Def()); g != q {
		t.Errorf("half a write is there: %d goals, %d questions", g, q)
	}
	sound(t, db)
}

// What badger does with a byte flipped in its write-ahead log: it opens without
// an error and has lost the transactions after it.
func TestStore_ATruncatedLogIsNoticed(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == 30 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()

	log := filepath.Join(dir, "store", "00001.mem")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), "goal-000015")
	if at < 0 {
		t.Fatal("the log does not have the row")
	}
	b[at+3] ^= 0x40
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	eng, err := engine.Badger(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatalf("the engine notices by itself: %v", err)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(storetest.DiskOptions(dir))
	if problem.CodeOf(err) != "store_truncated" {
		if err == nil {
			db.Close()
		}
		t.Fatalf("opened: %v", err)
	}
	// The owner can decide to go on with what is left.
	if err := os.Rename(filepath.Join(dir, "highwater"), filepath.Join(dir, "highwater.old")); err != nil {
		t.Fatal(err)
	}
	db = storetest.OnDisk(t, dir)
	sound(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// And a store that is gone altogether is not silently begun anew.
	if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(storetest.DiskOptions(dir)); problem.CodeOf(err) != "store_truncated" {
		t.Errorf("a missing store: %v", err)
	}
}

func TestOpen_RefusesWhatItMustNotTouch(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		dir := t.TempDir()
		db := storetest.OnDisk(t, dir)
		defer db.Close()
		if _, err := store.Open(storetest.DiskOptions(dir)); problem.CodeOf(err) != "store_locked" {
			t.Errorf("a second opening: %v", err)
		}
	})
	t.Run("newer", func(t *testing.T) {
		m := storetest.NewMemory()
		o := store.Options{HighWater: t.TempDir() + "/hw", Tables: tables.All(), Engine: m}
		db, err := store.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply([]engine.Op{{Key: []byte("mschema"), Value: []byte(strconv.Itoa(store.SchemaVersion + 1))}}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(o); problem.CodeOf(err) != "store_newer" {
			t.Errorf("a newer store: %v", err)
		}
	})
}

func TestVerify_FindsWhatIsWrong(t *testing.T) {
	for name, change := range map[string]func(key string, v []byte) []byte{
		"journal entry changed": func(key string, v []byte) []byte {
			if key[0] == 'j' && binary.BigEndian.Uint64([]byte(key[1:])) == 2 {
				return []byte(strings.Replace(string(v), "Reviewer", "Somebody", 1))
			}
			return v
		},
		"journal entry gone": func(key string, v []byte) []byte {
			if key[0] == 'j' && binary.BigEndian.Uint64([]byte(key[1:])) == 2 {
				return nil
			}
			return v
		},
		"row changed": func(key string, v []byte) []byte {
			if strings.HasSuffix(key, "goal-1") && key[0] == 'r' {
				return []byte(strings.Replace(string(v), "text one", "text two", 1))
			}
			return v
		},
		"row gone": func(key string, v []byte) []byte {
			if strings.HasSuffix(key, "goal-1") && key[0] == 'r' {
				return nil
			}
			return v
		},
		"index entry gone": func(key string, v []byte) []byte {
			if strings.HasSuffix(key, "goal-1") && key[0] == 'i' {
				return nil
			}
			return v
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, m := storetest.InMemory(t)
			for i := range 3 {
				mustWrite(t, db, agent("*"), put(note(fmt.Sprintf("goal-%d", i), "acme", "text one")))
			}
			sound(t, db)
			m.Change(change)
			if rep, err := db.Verify(); err != nil || len(rep.Problems) == 0 {
				t.Errorf("found %q, %v", rep.Problems, err)
			}
		})
	}
}
