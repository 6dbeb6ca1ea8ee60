package engine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/store/engine"
	"sophia/testkit/storetest"
)

// What the store relies on, of badger and of the one that tests use alike.
func TestEngine_IsAnOrderedMapWithSnapshots(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]func(t *rapid.T) engine.Engine{
		"badger": func(t *rapid.T) engine.Engine {
			own, err := os.MkdirTemp(dir, "")
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.Badger(own, nil)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
		"memory": func(*rapid.T) engine.Engine { return storetest.NewMemory() },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				e := open(t)
				key := rapid.Custom(func(t *rapid.T) string {
					return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"\x00", "a", "b", "\xff"}), 1, 4).Draw(t, "key"), "")
				})
				model := map[string]string{}
				for range rapid.IntRange(1, 5).Draw(t, "batches") {
					old := e.Snapshot()
					was := pairs(model, "", nil)
					var ops []engine.Op
					seen := map[string]bool{}
					for i, k := range rapid.SliceOfN(key, 1, 8).Draw(t, "keys") {
						if seen[k] {
							continue
						}
						seen[k] = true
						if rapid.Bool().Draw(t, "delete") {
							ops = append(ops, engine.Op{Key: []byte(k)})
							delete(model, k)
						} else {
							v := fmt.Sprint(i)
							ops = append(ops, engine.Op{Key: []byte(k), Value: []byte(v)})
							model[k] = v
						}
					}
					if err := e.Apply(ops); err != nil {
						t.Fatal(err)
					}
					if got := scan(t, old, "", nil, false); !slices.Equal(got, was) {
						t.Fatalf("a snapshot moved: %q, was %q", got, was)
					}
					old.Close()
				}
				s := e.Snapshot()
				for range 8 {
					low := key.Draw(t, "low")
					var high *string
					if rapid.Bool().Draw(t, "bounded") {
						h := key.Draw(t, "high")
						high = &h
					}
					want := pairs(model, low, high)
					if got := scan(t, s, low, high, false); !slices.Equal(got, want) {
						t.Fatalf("from %q to %v: %q, want %q", low, high, got, want)
					}
					last := ""
					if len(want) > 0 {
						last = want[len(want)-1]
					}
					k, v, ok, err := s.Last([]byte(low), bytesOf(high))
					if err != nil || ok != (last != "") || ok && string(k)+"="+string(v) != last {
						t.Fatalf("last from %q to %v: %q=%q, %v, %v; want %q", low, high, k, v, ok, err, last)
					}
					slices.Reverse(want)
					if got := scan(t, s, low, high, true); !slices.Equal(got, want) {
						t.Fatalf("down from %v to %q: %q, want %q", high, low, got, want)
					}
					v, ok, err = s.Get([]byte(low))
					if m, there := model[low]; err != nil || ok != there || string(v) != m {
						t.Fatalf("%q: %q, %v, %v", low, v, ok, err)
					}
				}
				s.Close()
				if err := e.Check(); err != nil {
					t.Fatal(err)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func pairs(m map[string]string, low string, high *string) []string {
	var keys []string
	for k := range m {
		if k >= low && (high == nil || k < *high) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		out = append(out, k+"="+m[k])
	}
	return out
}

func scan(t *rapid.T, s engine.Snapshot, low string, high *string, reverse bool) []string {
	var out []string
	if err := s.Scan([]byte(low), bytesOf(high), reverse, func(k, v []byte) bool {
		out = append(out, string(k)+"="+string(v))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
