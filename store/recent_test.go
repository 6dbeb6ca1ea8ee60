package store_test

import (
	"fmt"
	"strings"
	"testing"

	"sophia/testkit/storetest"
)

// The quick check finds a change in what it reads, and does not read the rest.
func TestVerifyRecent_FindsWhatWasChangedLately(t *testing.T) {
	for name, c := range map[string]struct {
		change func(key string, v []byte) []byte
		n      uint64
		found  bool
	}{
		"nothing": {func(_ string, v []byte) []byte { return v }, 3, false},
		"last entry changed": {func(key string, v []byte) []byte {
			if key[0] == 'j' && strings.Contains(string(v), "text 9") {
				return []byte(strings.Replace(string(v), "text 9", "text 8", 1))
			}
			return v
		}, 3, true},
		"last entry gone": {func(key string, v []byte) []byte {
			if key[0] == 'j' && strings.Contains(string(v), "text 9") {
				return nil
			}
			return v
		}, 3, true},
		"an old entry, within": {func(key string, v []byte) []byte {
			if key[0] == 'j' && strings.Contains(string(v), "text 2") {
				return []byte(strings.Replace(string(v), "text 2", "text 1", 1))
			}
			return v
		}, 100, true},
		"an old entry, not read": {func(key string, v []byte) []byte {
			if key[0] == 'j' && strings.Contains(string(v), "text 2") {
				return []byte(strings.Replace(string(v), "text 2", "text 1", 1))
			}
			return v
		}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, m := storetest.InMemory(t)
			if rep, err := db.VerifyRecent(c.n); err != nil || len(rep.Problems) > 0 || rep.Entries != 0 {
				t.Errorf("a new store: %+v, %v", rep, err)
			}
			for i := range 10 {
				mustWrite(t, db, agent("*"), put(note(fmt.Sprintf("goal-%d", i), "acme", fmt.Sprintf("text %d", i))))
			}
			m.Change(c.change)
			rep, err := db.VerifyRecent(c.n)
			if err != nil || (len(rep.Problems) > 0) != c.found || rep.Entries > c.n {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
}
