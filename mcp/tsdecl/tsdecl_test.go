package tsdecl_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"sophia/mcp/tsdecl"
)

func parse(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &s
}

// compiler is tsc: $SOPHIA_TSC, the one that .ci/setup installs, or the one on PATH.
func compiler(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("SOPHIA_TSC"); p != "" {
		return p
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if p := filepath.Join(cache, "sophia-test", "npm", "node_modules", ".bin", "tsc"); runs(p) {
			return p
		}
	}
	if p, err := exec.LookPath("tsc"); err == nil {
		return p
	}
	t.Skip("tsc_absent: no TypeScript compiler; .ci/setup installs it")
	return ""
}

func runs(p string) bool { _, err := os.Stat(p); return err == nil }

// compile runs tsc --strict over the declarations and a test that uses them.
func compile(t testing.TB, declarations, use string) {
	t.Helper()
	tsc, dir := compiler(t), t.TempDir()
	for name, text := range map[string]string{"sdk.d.ts": declarations, "use.ts": use} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tsc, "--strict", "--noEmit", "--target", "es2022", "--lib", "es2022,dom", "sdk.d.ts", "use.ts")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tsc: %v\n%s\n%s", err, out, near(declarations, string(out)))
	}
}

// near is the part of the declarations that the first error is about, or all.
func near(declarations, errors string) string {
	_, at, ok := strings.Cut(errors, "sdk.d.ts(")
	n, err := strconv.Atoi(strings.SplitN(at, ",", 2)[0])
	if lines := strings.Split(declarations, "\n"); ok && err == nil && n <= len(lines) {
		return strings.Join(lines[max(0, n-15):min(len(lines), n+5)], "\n")
	}
	return declarations
}

func one(t testing.TB, in, out string) string {
	return tsdecl.Declarations([]tsdecl.Method{{Name: "m", About: "Does it.", Input: parse(t, in), Output: parse(t, out)}})
}

const noOutput = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`

// Each case is one rule, checked by what can be assigned and what can't.
func TestTypes_AreWhatTheSchemaAccepts(t *testing.T) {
	cases := []struct{ name, schema, good, bad string }{
		{"union as element", `{"type":"array","items":{"type":["string","number"]}}`, `["a", 1]`, `"a"`},
		{"nullable element", `{"type":"array","items":{"type":["null","string"]}}`, `[null, "a"]`, `null`},
		{"intersection of unions", `{"allOf":[{"anyOf":[{"type":"string"},{"type":"number"}]},{"anyOf":[{"type":"number"},{"type":"boolean"}]}]}`, `1`, `"a"`},
		{"enum", `{"enum":["a","b",3,null]}`, `null`, `"c"`},
		{"const", `{"const":"x"}`, `"x"`, `"y"`},
		{"described consts", `{"oneOf":[{"const":"x","description":"the */ first"},{"const":"y","description":"the second"}]}`, `"y"`, `"z"`},
		{"tuple", `{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":false}`, `["a", 1]`, `["a", 1, 2]`},
		{"open tuple", `{"type":"array","prefixItems":[{"type":"string"}]}`, `["a", 1, {}]`, `[1]`},
		{"map", `{"type":"object","additionalProperties":{"type":"number"}}`, `{a: 1}`, `{a: "b"}`},
		{"map of unions", `{"type":"object","additionalProperties":{"type":["number","null"]}}`, `{a: null}`, `{a: "b"}`},
		{"free object", `{"type":"object"}`, `{a: [1]}`, `1`},
		{"anything", `{}`, `[1, "a"]`, ``},
		{"nothing", `{"not":{}}`, `undefined as never`, `1`},
		{"index wider than its properties", `{"type":"object","properties":{"n":{"type":"number"},"o":{"type":"boolean"}},"required":["n"],"additionalProperties":{"type":"string"}}`, `{n: 1, x: "y"}`, `{n: 1, x: []}`},
		{"odd names", `{"type":"object","properties":{"a-b":{"type":"string"},"1":{"type":"number"},"q\"":{"type":"string"},"class":{"type":"string"}},"required":["a-b"]}`, `{"a-b": "x", 1: 2, class: "c"}`, `{"a-b": 1}`},
		{"optional is not nullable", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, `{}`, `{a: null}`},
		{"nullable is not optional", `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`, `{a: null}`, `{}`},
		{"comment that ends comments", `{"type":"object","properties":{"a":{"type":"string","description":"*/ }; const x = 1; /*\n second line"}}}`, `{a: "x"}`, `{a: 1}`},
		{"default in a comment", `{"type":"object","properties":{"a":{"type":"string","default":"*/"}}}`, `{}`, `{a: 1}`},
	}
	var methods []tsdecl.Method
	var use strings.Builder
	for i, c := range cases {
		name := "case" + string(rune('A'+i))
		in := parse(t, `{"type":"object","properties":{"v":`+c.schema+`},"required":["v"]}`)
		methods = append(methods, tsdecl.Method{Name: name, About: c.name, Input: in, Output: parse(t, noOutput)})
		use.WriteString("// " + c.name + "\nsophia." + name + "({v: " + c.good + "});\n")
		if c.bad != "" {
			use.WriteString("// @ts-expect-error\nsophia." + name + "({v: " + c.bad + "});\n")
		}
	}
	compile(t, tsdecl.Declarations(methods), use.String())
}

func TestTypes_RecursionStaysTyped(t *testing.T) {
	d := one(t, `{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"},"other":{"$ref":"#/$defs/value"}},"$defs":{
		"node":{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name"]},
		"value":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/value"}}]}}}`, noOutput)
	compile(t, d, `
sophia.m({tree: {name: "a", kids: [{name: "b", kids: []}]}, other: ["a", ["b", ["c"]]]});
const deep: string | undefined = ({name: "a"} as Sophia.Node).kids?.[0]?.kids?.[0]?.name;
// @ts-expect-error
sophia.m({tree: {name: "a", kids: [{nam: "b"}]}});
// @ts-expect-error
sophia.m({other: [1]});
`)
	if n := strings.Count(d, "interface Node"); n != 1 {
		t.Errorf("the definition is declared %d times", n)
	}
}

func TestLists_ShareOnePageAndNarrowWithTheProjection(t *testing.T) {
	row := parse(t, `{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}},"required":["id","title","tags"]}`)
	page := func(extra string) *jsonschema.Schema {
		s := parse(t, `{"type":"object","properties":{"items":{"type":"array"},"total":{"type":"integer"},"cursor":{"type":"string"}`+extra+`},"required":["items","total"`+strings.Repeat(`,"fusion"`, len(extra)/max(1, len(extra)))+`]}`)
		s.Properties["items"].Items = row
		return s
	}
	in := `{"type":"object","properties":{"query":{"type":"string"},"compact":{"type":"boolean"},"fields":{"type":"array","items":{"type":"string"}}},"required":["query"]}`
	names := map[*jsonschema.Schema]string{row: "Note"}
	d := tsdecl.Declarations([]tsdecl.Method{
		{Name: "listNotes", Input: parse(t, in), Output: page(""), Names: names, List: true},
		{Name: "searchNotes", Input: parse(t, in), Output: page(`,"fusion":{"type":"object","properties":{"k":{"type":"integer"}},"required":["k"]}`), Names: names, List: true},
	})
	compile(t, d, `
async function use() {
  const all: Sophia.Page<Sophia.Note> = await sophia.listNotes({query: "x"});
  const title: string = all.items[0].title;
  const unread: number = all._inbox_unread;
  const some = await sophia.listNotes({query: "x", compact: true});
  const maybe: string | undefined = some.items[0].title;
  // @ts-expect-error a compact row may lack the key
  const sure: string = some.items[0].title;
  await sophia.listNotes({query: "x", fields: ["id", "tags"]});
  // @ts-expect-error there is no such field
  await sophia.listNotes({query: "x", fields: ["nope"]});
  // @ts-expect-error there is no hits
  all.hits;
  const found = await sophia.searchNotes({query: "x"});
  const k: number = found.fusion.k + found.total;
  // @ts-expect-error query is missing
  await sophia.searchNotes({});
}
`)
	if n := strings.Count(d, "interface Note "); n != 1 {
		t.Errorf("the row is declared %d times:\n%s", n, d)
	}
}

func TestNames_DontMeetThoseOfTheLanguage(t *testing.T) {
	out := parse(t, `{"type":"object","properties":{"doc":{"type":"object","properties":{"size":{"type":"number"}},"required":["size"]},"p":{"type":"object","properties":{"x":{"type":"number"}}}},"required":["doc"]}`)
	names := map[*jsonschema.Schema]string{out.Properties["doc"]: "Document", out.Properties["p"]: "Promise"}
	d := tsdecl.Declarations([]tsdecl.Method{{Name: "m", Output: out, Names: names}})
	compile(t, d, `
sophia.m().then(r => { const n: number = r.doc.size; });
// @ts-expect-error it is not the browser's Document
sophia.m().then(r => r.doc.body);
`)
}

// Whatever the schema, the declarations are TypeScript. One compilation takes
// all drawn schemas, because starting the compiler is what takes time.
func TestDeclarations_AnySchemaCompiles(t *testing.T) {
	compiler(t)
	text := rapid.SampledFrom([]string{"", "plain", "*/", "a\nb", "`${x}`", "\u2028", "\"", "\\", "class", "a-b", "é", "<T>", "@x"})
	var schema func(depth int) *rapid.Generator[map[string]any]
	schema = func(depth int) *rapid.Generator[map[string]any] {
		return rapid.Custom(func(t *rapid.T) map[string]any {
			s := map[string]any{}
			if rapid.Bool().Draw(t, "described") {
				s["description"] = text.Draw(t, "description")
			}
			kinds := []string{"string", "integer", "null", "enum", "const", "any", "types"}
			if depth > 0 {
				kinds = append(kinds, "array", "object", "map", "anyOf", "allOf", "tuple")
			}
			sub := func(label string) map[string]any { return schema(depth-1).Draw(t, label) }
			switch k := rapid.SampledFrom(kinds).Draw(t, "kind"); k {
			case "enum":
				s["enum"] = []any{text.Draw(t, "value"), 1.0, nil, true}
			case "const":
				s["const"] = text.Draw(t, "value")
			case "any":
			case "types":
				s["type"] = []any{"null", "string", "integer", "number"}
			case "array":
				s["type"], s["items"] = "array", sub("items")
			case "tuple":
				s["type"], s["prefixItems"] = "array", []any{sub("first"), sub("second")}
			case "map":
				s["type"], s["additionalProperties"] = "object", sub("values")
			case "anyOf", "allOf":
				s[k] = []any{sub("left"), sub("right")}
			case "object":
				props := map[string]any{}
				for range rapid.IntRange(1, 3).Draw(t, "n") {
					props[text.Draw(t, "name")] = sub("property")
				}
				s["type"], s["properties"] = "object", props
				if rapid.Bool().Draw(t, "open") {
					s["additionalProperties"] = sub("extra")
				}
			default:
				s["type"] = k
			}
			return s
		})
	}
	var methods []tsdecl.Method
	rapid.Check(t, func(rt *rapid.T) {
		in := map[string]any{"type": "object", "properties": map[string]any{"v": schema(3).Draw(rt, "schema")}}
		b, err := json.Marshal(in)
		if err != nil {
			rt.Fatal(err)
		}
		methods = append(methods, tsdecl.Method{Name: "m" + string(rune('A'+len(methods)%26)) + strings.Repeat("x", len(methods)/26), About: text.Draw(rt, "about"), Input: parse(t, string(b)), Output: parse(t, string(b))})
	})
	compile(t, tsdecl.Declarations(methods), `const m: Sophia.Methods = sophia;`)
}
