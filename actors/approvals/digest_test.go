package approvals

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
)

func TestDigest_SpellingDoesNotMatterAndMeaningDoes(t *testing.T) {
	digest := func(tool, arguments, connection string) string {
		t.Helper()
		d, err := CallDigest(tool, json.RawMessage(arguments), connection)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest("sophia.remember_fact", `{"entity":"acme","value":"é","n":1}`, "conn-1")
	for _, same := range []string{
		` { "n" : 1, "value" : "\u00e9", "entity" : "acme" } `,
		`{"value":"é","entity":"\u0061cme","n":1}`,
	} {
		if got := digest("sophia.remember_fact", same, "conn-1"); got != base {
			t.Errorf("%s is the same call", same)
		}
	}
	for what, other := range map[string]string{
		"value":           digest("sophia.remember_fact", `{"entity":"acme","value":"e","n":1}`, "conn-1"),
		"tool":            digest("sophia.record_observation", `{"entity":"acme","value":"é","n":1}`, "conn-1"),
		"connection":      digest("sophia.remember_fact", `{"entity":"acme","value":"é","n":1}`, "conn-2"),
		"type":            digest("sophia.remember_fact", `{"entity":"acme","value":"é","n":"1"}`, "conn-1"),
		"order of a list": digest("sophia.remember_fact", `{"entity":"acme","value":["b","a"]}`, "conn-1"),
		"the list":        digest("sophia.remember_fact", `{"entity":"acme","value":["a","b"]}`, "conn-1"),
	} {
		if other == base {
			t.Errorf("another %s has the same digest", what)
		}
	}
	if digest("a", `{}`, "bc") == digest("ab", `{}`, "c") {
		t.Error("parts run together")
	}
}

func TestDigest_RefusesWhatReadersMayReadDifferently(t *testing.T) {
	for _, bad := range []string{`{"a":1,"a":2}`, `{"x":{"a":1,"\u0061":2}}`, `{"a":1`, `{} {}`, `{"a":tru}`, strings.Repeat("[", 5000)} {
		if _, err := CallDigest("t", json.RawMessage(bad), "c"); problem.CodeOf(err) != "malformed_arguments" {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
}

// Whatever canonical form is, decoding gives the same value, and making it
// canonical again changes nothing.
func TestDigest_CanonicalIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := anyJSON(3).Draw(t, "value")
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		once, err := Canonical(text)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s (%v)", once, twice, err)
		}
		var indented bytes.Buffer
		json.Indent(&indented, text, "  ", "\t")
		other, err := Canonical(indented.Bytes())
		if err != nil || !bytes.Equal(once, other) {
			t.Fatalf("%s\n%s (%v)", once, other, err)
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves,
		rapid.SliceOfN(anyJSON(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.StringN(0, 5, -1), anyJSON(depth-1), 0, 4).AsAny())...)
}

func FuzzDigest_Canonical(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[true,null,"x"]}`, `1e400`, `{"a":1,"a":2}`, "\"\xff\"", `[[[[`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := Canonical(text)
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is not JSON", text, once)
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q (%v)", once, twice, err)
		}
	})
}
