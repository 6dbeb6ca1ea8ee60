package store

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

func TestExpected_SaysWhatDiffersFirst(t *testing.T) {
	seen := time.Date(2026, 7, 17, 9, 0, 0, 5, time.UTC)
	done := seen.Add(time.Minute)
	at := func(when time.Time) string { return when.Format(time.RFC3339Nano) }
	entry := func(key, before, after string) Entry {
		return Entry{Table: "pages", Key: key, Before: raw(before), After: raw(after)}
	}
	change := func(key, before, after string) messages.Change {
		return messages.Change{Table: "pages", Key: key, Before: json.RawMessage(before), After: json.RawMessage(after), At: seen}
	}
	one := change("a", `null`, `{"body":"x","n":12345678901234567890,"tags":["p","q"],"at":"`+at(seen)+`"}`)
	same := `{"at":"` + at(done) + `","tags":["p","q"],"n":12345678901234567890,"body":"x"}`
	for name, c := range map[string]struct {
		want []messages.Change
		does []Entry
		says string
	}{
		"the same":             {[]messages.Change{one}, []Entry{entry("a", "", same)}, ""},
		"nothing was approved": {nil, []Entry{entry("a", "", same)}, ""},
		"nothing would change": {[]messages.Change{}, nil, ""},
		"more":                 {[]messages.Change{one}, []Entry{entry("a", "", same), entry("b", "", `{}`)}, "the pages of b would change too"},
		"less":                 {[]messages.Change{one}, nil, "the pages of a would not change"},
		"another row":          {[]messages.Change{one}, []Entry{entry("b", "", same)}, "the pages of b would change, and not the pages of a"},
		"there is a row now":   {[]messages.Change{one}, []Entry{entry("a", `{}`, same)}, "pages of a has changed since: is there now"},
		"another text":         {[]messages.Change{one}, []Entry{entry("a", "", strings.Replace(same, `"x"`, `"y"`, 1))}, `would be another: body is "y", and was "x"`},
		"another number":       {[]messages.Change{one}, []Entry{entry("a", "", strings.Replace(same, `7890,`, `7891,`, 1))}, "n is 12345678901234567891, and was"},
		"another item":         {[]messages.Change{one}, []Entry{entry("a", "", strings.Replace(same, `"q"`, `"r"`, 1))}, `tags[1] is "r"`},
		"another time":         {[]messages.Change{one}, []Entry{entry("a", "", strings.Replace(same, at(done), at(done.Add(1)), 1))}, "at is"},
		"the row is gone":      {[]messages.Change{change("a", `{"v":1}`, `{"v":2}`)}, []Entry{entry("a", "", `{"v":2}`)}, "is gone"},
		"a key more":           {[]messages.Change{change("a", `{"v":1}`, `{"v":2}`)}, []Entry{entry("a", `{"v":1,"w":1}`, `{"v":2}`)}, "w is there now"},
		"the time of writing, before": {[]messages.Change{change("a", `{"at":"`+at(seen)+`"}`, `{}`)},
			[]Entry{entry("a", `{"at":"`+at(done)+`"}`, `{}`)}, "has changed since: at is"},
	} {
		tx := &Tx{cause: Cause{Expect: c.want}, entries: c.does, now: done}
		err := tx.expected()
		if (err == nil) != (c.says == "") || err != nil && (problem.CodeOf(err) != "approval_outdated" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		tx.dry = true
		if err := tx.expected(); err != nil {
			t.Errorf("%s, as a preview: %v", name, err)
		}
	}
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
