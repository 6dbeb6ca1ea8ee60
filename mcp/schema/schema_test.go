package schema_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"sophia/mcp/schema"
)

type leaf struct {
	Name  string   `json:"name" jsonschema:"what it is called" min:"1" max:"5"`
	Score *float64 `json:"score"` // nullable
}

type sample struct {
	Kind  string            `json:"kind" enum:"a,b,c"`
	Count int               `json:"count,omitempty" default:"3" min:"1" max:"10"`
	Note  *string           `json:"note,omitempty"` // optional, never null
	Tags  []string          `json:"tags,omitempty" max:"2"`
	Leafs []leaf            `json:"leafs,omitempty"`
	Extra map[string]int    `json:"extra,omitempty"`
	Any   json.RawMessage   `json:"any,omitempty"`
	When  *time.Time        `json:"when,omitempty"`
	Free  map[string]string `json:"free,omitempty"`
	Flag  bool              `json:"flag,omitempty"`
}

func inferred(t testing.TB) schema.Inferred {
	inf, err := schema.Of(reflect.TypeFor[sample]())
	if err != nil {
		t.Fatal(err)
	}
	return inf
}

func TestSchema_SaysWhatTheTypeAndItsTagsSay(t *testing.T) {
	b, _ := json.Marshal(inferred(t).Schema)
	for _, want := range []string{
		`"kind":{"type":"string","enum":["a","b","c"]}`,
		`"count":{"type":"integer","default":3,"minimum":1,"maximum":10}`,
		`"note":{"type":"string"}`,
		`"tags":{"type":"array","maxItems":2,"items":{"type":"string"}}`,
		`"score":{"type":["null","number"]}`,
		`"name":{"type":"string","description":"what it is called","minLength":1,"maxLength":5}`,
		`"when":{"type":"string","format":"date-time"}`,
		`"any":{"description":"any JSON value"}`,
		`"required":["kind"]`,
	} {
		if !strings.Contains(reorder(t, b), reorder(t, []byte("{"+want+"}"))[1:len(reorder(t, []byte("{"+want+"}")))-1]) {
			t.Errorf("missing %s in\n%s", want, b)
		}
	}
}

// reorder makes the order of keys irrelevant.
func reorder(t *testing.T, b []byte) string {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

func TestSchema_RefusesATagThatDoesntFit(t *testing.T) {
	type badDefault struct {
		N int `json:"n,omitempty" default:"many"`
	}
	type badBound struct {
		N int `json:"n" min:"few"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[badDefault](), reflect.TypeFor[badBound](), reflect.TypeFor[int]()} {
		if _, err := schema.Of(typ); err == nil {
			t.Errorf("%v was accepted", typ)
		}
	}
}

func TestChecker_RefusesAKeywordItWouldNotEnforce(t *testing.T) {
	s := inferred(t).Schema.CloneSchemas()
	s.Properties["kind"].Pattern = "^a"
	if _, err := schema.NewChecker(s); err == nil {
		t.Error("a pattern that nobody checks was accepted")
	}
}

func TestEncode_ListsAreNeverNull(t *testing.T) {
	type out struct {
		Items []leaf         `json:"items"`
		Map   map[string]int `json:"map"`
		Deep  struct {
			List []string `json:"list"`
		} `json:"deep"`
		Rows []struct {
			Tags []string `json:"tags"`
		} `json:"rows"`
		Raw json.RawMessage `json:"raw"`
		At  time.Time       `json:"at"`
	}
	v := out{Raw: json.RawMessage(`"<&>"`)}
	v.Rows = make([]struct {
		Tags []string `json:"tags"`
	}, 1)
	b, err := schema.Encode(&v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"items":[],"map":{},"deep":{"list":[]},"rows":[{"tags":[]}],"raw":"<&>","at":"0001-01-01T00:00:00Z"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// The library's validator is the oracle: Check accepts exactly what it accepts.
func TestCheck_AgreesWithTheLibrary(t *testing.T) {
	s := inferred(t).Schema
	checker, err := schema.NewChecker(s)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scalar := rapid.OneOf(
		rapid.Just(any(nil)), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "aaaaaa", "ä€", "1"}), func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]float64{0, 1, 3, 10, 11, 1.5, -2, 1e20, math.MaxFloat64}), func(f float64) any { return f }),
	)
	leafs := rapid.MapOf(rapid.SampledFrom([]string{"name", "score", "other"}), scalar)
	value := rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(scalar, 0, 3), func(s []any) any { return s }),
		rapid.Map(rapid.SliceOfN(leafs, 0, 2), func(s []map[string]any) any {
			out := make([]any, len(s))
			for i := range s {
				out[i] = s[i]
			}
			return out
		}),
		rapid.Map(rapid.MapOf(rapid.SampledFrom([]string{"x", "y"}), scalar), func(m map[string]any) any { return m }))
	keys := rapid.SampledFrom([]string{"kind", "count", "note", "tags", "leafs", "extra", "any", "when", "free", "flag", "unknown"})
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.MapOfN(keys, value, 0, 4).Draw(t, "args")
		if rapid.Bool().Draw(t, "kind given") {
			args["kind"] = rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "kind")
		}
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		var decoded any
		_ = json.Unmarshal(b, &decoded)
		ours, theirs := checker.Check(b), oracle.Validate(decoded)
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("%s\nours:   %v\ntheirs: %v", b, ours, theirs)
		}
		if ours == nil {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no drawn value was accepted, so only refusals were compared")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"kind":"a"}`, `{"kind":"a","count":1e400000000}`, `null`, `{"kind":"a","count":1e-400000000}`, `{"kind":"a","count":3.0}`, `{"kind":"a","kind":"b"}`, `[[[[`, `{"kind":"a","leafs":[{"name":"x","score":null}]}`, "{\"kind\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	checker, err := schema.NewChecker(inferred(f).Schema)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v sample
		if err := checker.Decode(b, &v); err != nil {
			return
		}
		if v.Kind != "a" && v.Kind != "b" && v.Kind != "c" {
			t.Errorf("%s was accepted with kind %q", b, v.Kind)
		}
		if v.Count < 1 || v.Count > 10 {
			t.Errorf("%s was accepted with count %d", b, v.Count)
		}
	})
}
