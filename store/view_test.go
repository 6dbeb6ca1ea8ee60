package store

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/store/engine"
)

// still is a snapshot of sorted pairs.
type still []engine.Op

func (s still) Get(key []byte) ([]byte, bool, error) {
	for _, op := range s {
		if string(op.Key) == string(key) {
			return op.Value, true, nil
		}
	}
	return nil, false, nil
}

func (s still) Scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	ops := slices.Clone(s)
	if reverse {
		slices.Reverse(ops)
	}
	for _, op := range ops {
		if string(op.Key) >= string(low) && (high == nil || string(op.Key) < string(high)) && !f(op.Key, op.Value) {
			return nil
		}
	}
	return nil
}

func (s still) Last(low, high []byte) (key, value []byte, ok bool, err error) {
	err = s.Scan(low, high, true, func(k, v []byte) bool { key, value, ok = k, v, true; return false })
	return
}

func (s still) Close() {}

// A write sees the store as it will be after it.
func TestView_PendingWritesLieOverTheSnapshot(t *testing.T) {
	key := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 1, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]string{}
		var snap still
		under := rapid.SliceOfNDistinct(key, 0, 10, rapid.ID).Draw(t, "under")
		slices.Sort(under)
		for _, k := range under {
			model[k] = "old"
			snap = append(snap, engine.Op{Key: []byte(k), Value: []byte("old")})
		}
		v := view{snap: snap, over: new(pending)}
		for _, k := range rapid.SliceOfN(key, 0, 10).Draw(t, "over") {
			if rapid.Bool().Draw(t, "delete") {
				v.over.Set(k, nil)
				delete(model, k)
			} else {
				v.over.Set(k, []byte("new"))
				model[k] = "new"
			}
		}
		low := []byte(key.Draw(t, "low"))
		var high []byte
		if rapid.Bool().Draw(t, "bounded") {
			high = []byte(key.Draw(t, "high"))
		}
		var want []string
		for k, val := range model {
			if k >= string(low) && (high == nil || k < string(high)) {
				want = append(want, k+"="+val)
			}
		}
		slices.Sort(want)
		k, val, ok, err := v.last(low, high)
		if err != nil || ok != (len(want) > 0) || ok && string(k)+"="+string(val) != want[len(want)-1] {
			t.Fatalf("last of %q to %q: %q %q %v, want the last of %q", low, high, k, val, ok, want)
		}
		for _, reverse := range []bool{false, true} {
			var got []string
			stop := rapid.IntRange(1, 8).Draw(t, "stop")
			if err := v.scan(low, high, reverse, func(k, val []byte) bool {
				got = append(got, string(k)+"="+string(val))
				return len(got) < stop
			}); err != nil {
				t.Fatal(err)
			}
			part := slices.Clone(want)
			if reverse {
				slices.Reverse(part)
			}
			part = part[:min(stop, len(part))]
			if !slices.Equal(got, part) {
				t.Fatalf("from %q to %q, reverse %v: %s, want %s", low, high, reverse, strings.Join(got, " "), strings.Join(part, " "))
			}
		}
	})
}
