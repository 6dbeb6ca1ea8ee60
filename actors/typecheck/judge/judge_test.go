package judge_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"sophia/actors/typecheck/judge"
)

var known = judge.Known{Types: []string{"Page", "Projection", "Hit", "SearchPage", "SearchInput", "Methods"}, Methods: []string{"search", "queryKnowledge"}}

// at makes a complaint at the place that » marks.
func at(marked string, code int, message string) (string, judge.Diagnostic) {
	before, after, _ := strings.Cut(marked, "»")
	line := strings.Count(before, "\n")
	last := before[strings.LastIndexByte(before, '\n')+1:]
	return before + after, judge.Diagnostic{Code: code, Line: line, Character: len(utf16.Encode([]rune(last))), Message: message}
}

const overload = "No overload matches this call.\n  The last overload gave the following error.\n    "

// Each pair is one rule: what is told, and what looks like it and runs.
func TestJudge_KeepsMistakesOnly(t *testing.T) {
	noTitel := "Property 'titel' does not exist on type 'Hit'. Did you mean 'title'?"
	for _, c := range []struct {
		code int
		say  string
		told []string
		kept []string // let through
	}{
		{2551, noTitel,
			[]string{"r.items.map(h => h.»titel)", "const { »titel } = h", "use(h.»titel.length)", "`${h.»titel}`", "é(😀.»titel)", "sort((a, b) => a.»titel > b)"},
			[]string{"h.»titel = 1", "h.»titel ??= 1", "h?.»titel", "h.»titel?.x", "h.»titel ?? 1", "h.»titel || 1", "h.»titel ? 1 : 2", "!h.»titel", "a || h.»titel", "typeof h.»titel",
				"if (h.»titel > 1) {}", "while (a.b[0].»titel) {}", "xs.filter(h => h.»titel)", "h.»titel === undefined", "'titel' in h && h.»titel.x", "const { »titel = 1 } = h",
				"const { »titel: t = 1 } = h", "try { h.»titel } catch {}", "h.titel = 1; h.»titel", "Object.assign(h, { titel: 1 }); h.»titel", "if (h.titel) x(h.»titel.y)",
				"h[k] = 1; h.»titel", "delete h.»titel", "interface Hit { a: 1 }; h.»titel", "f(`unbalanced"}},
		{2339, "Property 'b' does not exist on type '{ a: number; }'.", nil, []string{"x.»b", "x.»b.c"}},
		{2339, "Property 'b' does not exist on type 'unknown'.", nil, []string{"x.»b"}},
		{2339, "Property 'b' does not exist on type 'Hit | Other'.", nil, []string{"x.»b"}},
		{2339, "Property 'hits' does not exist on type 'SearchPage<Partial<Hit>>'.", []string{"r.»hits", "r.»hits.length"}, []string{"r.items || r.»hits"}},
		{2339, "Property 'items' does not exist on type 'Promise<Page<Hit>>'.", []string{"sophia.search({}).»items"}, []string{"p.»items ?? p"}},
		{2551, "Property 'serch' does not exist on type 'Methods'. Did you mean 'search'?", []string{"sophia.»serch({})", "sophia.»serch?.({})", "if (sophia.»serch) {}"}, []string{"try { sophia.»serch() } catch (e) {}"}},
		{2304, "Cannot find name 'nope'.", []string{"»nope(1)", "x = 1; »nope"}, []string{"»nope = 1", "nope = 1; »nope", "typeof nope === 'x' && »nope", "globalThis.nope = 1; »nope",
			"for (»nope of xs) {}", "[nope, a] = xs; »nope", "»nope++", "try { »nope } catch {}"}},
		{2488, "Type 'Page<Hit>' must have a '[Symbol.iterator]()' method that returns an iterator.", []string{"for (const x of »r) {}"}, []string{"try { [...»r] } catch {}"}},
		{2488, "Type 'unknown' must have a '[Symbol.iterator]()' method that returns an iterator.", nil, []string{"for (const x of »r) {}"}},
		{2349, "This expression is not callable.\n  Type 'Hit[]' has no call signatures.", []string{"r.»items()"}, nil},
		{2349, "This expression is not callable.\n  Type '{}' has no call signatures.", nil, []string{"»r()"}},
		{2588, "Cannot assign to 'n' because it is a constant.", []string{"»n = 1"}, []string{"try { »n = 1 } catch {}"}},
		{2769, overload + "Type 'string' is not assignable to type 'number'.", []string{"sophia.search({ »limit: '5' })", "sophia.search(f ? { »limit: '5' } : {})"},
			[]string{"other({ »limit: '5' })", "sophia.search(own({ »limit: '5' }))", "sophia.search({ »limit: '5' }).catch(e => 1)", "Promise.allSettled([sophia.search({ »limit: '5' })])",
				"x.sophia.search({ »limit: '5' })", "sophia.search({ f: () => { g({ »limit: '5' }) } })"}},
		{2769, overload + `Type 'string' is not assignable to type '"a" | "b"'.`, nil, []string{"sophia.search({ »kind })"}},
		{2769, overload + `Type '"c"' is not assignable to type '"a" | "b"'.`, []string{"sophia.search({ »kind: 'c' })"}, nil},
		{2322, `Type '"c"' is not assignable to type '"a" | ... 20 more ... | "b"'.`, []string{"sophia.search({ »kind: 'c' })"}, nil},
		{2322, `Type 'string | number' is not assignable to type 'number'.`, nil, []string{"sophia.search({ »limit })"}},
		{2322, `Type 'Date' is not assignable to type 'string'.`, nil, []string{"sophia.search({ »since })"}},
		{2322, `Type 'Hit' is not assignable to type 'string'.`, []string{"sophia.search({ »id: h })"}, nil},
		{2322, `Type 'string[]' is not assignable to type 'string'.`, []string{"sophia.search({ »q: [] })"}, nil},
		{2769, overload + "Object literal may only specify known properties, but 'quer' does not exist in type 'SearchInput'. Did you mean to write 'query'?", []string{"sophia.search({ »quer: 1 })"}, nil},
		{2769, overload + "Property 'query' is missing in type '{ limit: number; }' but required in type 'SearchInput'.", []string{"sophia.search(»{ limit: 1 })"},
			[]string{"sophia.search(»{ ...base, limit: 1 })", "sophia.search(»args)", "sophia.search(»{ [k]: 1 })"}},
		{2554, "Expected 1 arguments, but got 0.", []string{"sophia.»search()"}, []string{"own.»search()", "»f()"}},
		{2554, "Expected 0 arguments, but got 1.", []string{"sophia.whoami(»{ a: 1 })"}, []string{"sophia.whoami(»{})"}},
		{2559, `Type '"x"' has no properties in common with type 'OrientInput'.`, []string{"sophia.orient(»'x')"}, nil},
		{2322, "Type 'string' is not assignable to type 'number'.", nil, []string{"let n = 1; »n = 'x'", "const »r: Row = 'x'"}},
		{2362, "The left-hand side of an arithmetic operation must be of type 'any'.", nil, []string{"»a * 2"}},
		{7006, "Parameter 'x' implicitly has an 'any' type.", nil, []string{"(»x) => x"}},
	} {
		for _, marked := range c.told {
			code, d := at(marked, c.code, c.say)
			got := judge.Judge(code, []judge.Diagnostic{d}, known)
			if len(got) != 1 || got[0].Message == "" {
				t.Errorf("%s: %q is not told", marked, c.say)
				continue
			}
			before, _, _ := strings.Cut(marked, "»")
			if want := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1; got[0].Column != want || got[0].Line != d.Line+1 {
				t.Errorf("%s: told at %d:%d, want column %d", marked, got[0].Line, got[0].Column, want)
			}
		}
		for _, marked := range c.kept {
			code, d := at(marked, c.code, c.say)
			if got := judge.Judge(code, []judge.Diagnostic{d}, known); len(got) > 0 {
				t.Errorf("%s would run, and %q is told: %+v", marked, c.say, got)
			}
		}
	}
}

func TestJudge_TellsWhatToDo(t *testing.T) {
	for _, c := range []struct{ marked, say, hint string }{
		{"r.»hits", "Property 'hits' does not exist on type 'Page<Hit>'.", ".items"},
		{"r.items.»title", "Property 'title' does not exist on type 'Hit[]'.", ".map(x => x.title)"},
		{"p.»items", "Property 'items' does not exist on type 'Promise<Page<Hit>>'.", "await"},
		{"sophia.»query_knowledge()", "Property 'query_knowledge' does not exist on type 'Methods'.", "sophia.queryKnowledge"},
	} {
		code, d := at(c.marked, 2339, c.say)
		if got := judge.Judge(code, []judge.Diagnostic{d}, known); len(got) != 1 || !strings.Contains(got[0].Hint, c.hint) {
			t.Errorf("%s: %+v, want a hint with %q", c.marked, got, c.hint)
		}
	}
}

func TestJudge_TellsInOrderAndOnce(t *testing.T) {
	code := "a.»x\nb.»x"
	one, d1 := at("a.»x\nb.x", 2339, "Property 'x' does not exist on type 'Hit'.")
	_, d2 := at("a.x\nb.»x", 2339, "Property 'x' does not exist on type 'Hit'.")
	got := judge.Judge(one, []judge.Diagnostic{d2, d1, d1}, known)
	if len(got) != 2 || got[0].Line != 1 || got[1].Line != 2 {
		t.Errorf("%s: %+v", code, got)
	}
}

// Whatever the code is and wherever the complaint lies, judging ends and points
// into the code.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"a.b", "`a${b`${c}`}d`", "/[/]/.test(x) / 2", "({...a}).b?.[0]!.c", "'\\'' + \"\\\n\"", "a?.5:1", "x = y / z / 2", "<T>(x: T) => x", "]", "({[", "/*", "//", "sophia.a({b:c})", "\ufeffa.b"} {
		f.Add(s, uint16(0), uint16(2), uint8(0))
	}
	messages := []judge.Diagnostic{
		{Code: 2339, Message: "Property 'b' does not exist on type 'Hit'."}, {Code: 2304, Message: "Cannot find name 'b'."},
		{Code: 2769, Message: overload + "Type 'string' is not assignable to type 'number'."}, {Code: 2554, Message: "Expected 1 arguments, but got 0."},
		{Code: 2488, Message: "Type 'Promise<x>' must have a '[Symbol.iterator]()' method."}, {Code: 2741, Message: "Property 'b' is missing in type 'x' but required in type 'y'."},
		{Code: 2559, Message: "Type '\"' has no properties in common with type 'x'."}, {Code: 2322, Message: "Type '(|\"' is not assignable to type '>)'."},
	}
	f.Fuzz(func(t *testing.T, code string, line, character uint16, which uint8) {
		d := messages[int(which)%len(messages)]
		d.Line, d.Character = int(line), int(character)
		lines := strings.Split(code, "\n")
		for _, got := range judge.Judge(code, []judge.Diagnostic{d}, known) {
			if got.Line < 1 || got.Line > len(lines) || got.Column < 1 || got.Column > len([]rune(lines[got.Line-1]))+1 {
				t.Fatalf("%q: %+v", code, got)
			}
		}
	})
}

// Text in strings, comments, templates and regular expressions is never taken
// for code.
func TestJudge_LiteralsAreNotCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab (){}=>;.?!|&"))).Draw(t, "text")
		for _, literal := range []string{"'" + text + "'", "\"" + text + "\"", "`" + text + "`", "/* " + text + " */ 1", "/x" + strings.Map(func(r rune) rune {
			if strings.ContainsRune("(){}?", r) {
				return 'q'
			}
			return r
		}, text) + "/"} {
			code, d := at("use("+literal+"); h.»titel", 2339, "Property 'titel' does not exist on type 'Hit'.")
			if len(judge.Judge(code, []judge.Diagnostic{d}, known)) != 1 {
				t.Fatalf("%q hides the mistake", code)
			}
		}
	})
}
