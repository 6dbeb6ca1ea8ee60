package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sophia/messages/problem"
)

// expected compares what the write does with what it was approved to do, and
// says what differs first. Only the moment of writing may be another: where the
// preview has its own, the write has its own.
func (tx *Tx) expected() error {
	want := tx.cause.Expect
	if want == nil || tx.dry {
		return nil
	}
	for i := range max(len(want), len(tx.entries)) {
		switch {
		case i >= len(tx.entries):
			return outdated("the %s of %s would not change", want[i].Table, want[i].Key)
		case i >= len(want):
			return outdated("the %s of %s would change too", tx.entries[i].Table, tx.entries[i].Key)
		}
		e, w := &tx.entries[i], want[i]
		if e.Table != w.Table || e.Key != w.Key {
			return outdated("the %s of %s would change, and not the %s of %s", e.Table, e.Key, w.Table, w.Key)
		}
		if where := difference(w.Before, e.Before, nil); where != "" {
			return outdated("the %s of %s has changed since: %s", e.Table, e.Key, where)
		}
		if where := difference(w.After, e.After, moments{w.At, tx.now}.same); where != "" {
			return outdated("the %s of %s would be another: %s", e.Table, e.Key, where)
		}
	}
	return nil
}

func outdated(format string, args ...any) error {
	return problem.New("approval_outdated", "what the owner approved is not what would be done now: "+format, args...).
		WithHint("Nothing was changed. Call it again; the owner is then shown what there is now.")
}

// moments are the times of a preview and of its write, as rows have them.
type moments struct{ preview, write time.Time }

func (m moments) same(a, b string) bool {
	return a == m.preview.Format(time.RFC3339Nano) && b == m.write.Format(time.RFC3339Nano)
}

// difference says where two JSON values first differ, "" when nowhere. same
// lets two unequal strings pass.
func difference(was, is json.RawMessage, same func(a, b string) bool) string {
	if bytes.Equal(was, is) {
		return ""
	}
	a, errA := decoded(was)
	b, errB := decoded(is)
	if errA != nil || errB != nil {
		return "it can't be read"
	}
	return differs("", a, b, same)
}

func decoded(raw json.RawMessage) (v any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func differs(path string, a, b any, same func(a, b string) bool) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Sorted(maps.Keys(x))
		for k := range maps.Keys(y) {
			if _, both := x[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if where := differs(strings.TrimPrefix(path+"."+k, "."), x[k], y[k], same); where != "" {
				return where
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			if where := differs(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], same); where != "" {
				return where
			}
		}
		return ""
	case string:
		if y, ok := b.(string); ok && (x == y || same != nil && same(x, y)) {
			return ""
		}
	default:
		if a == b {
			return ""
		}
	}
	switch {
	case a == nil:
		return strings.TrimPrefix(path+" is there now", " ")
	case b == nil:
		return strings.TrimPrefix(path+" is gone", " ")
	}
	return fmt.Sprintf("%s is %s, and was %s", path, shown(b), shown(a))
}

// shown is a value for an error text.
func shown(v any) string {
	const most = 60
	text, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return string(text)
}
