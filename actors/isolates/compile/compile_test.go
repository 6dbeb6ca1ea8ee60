package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/actors/isolates/compile"
	"sophia/actors/isolates/script"
	"sophia/messages"
)

func TestCompile_FinalExpressionIsReturned(t *testing.T) {
	for code, want := range map[string]string{
		"const a: number = 1; a + 1":           "return a + 1;",
		"1 + 1":                                "return 1 + 1;",
		"-1":                                   "return -1;",
		"'a' + 'b'":                            `return "ab";`,
		"'hello'":                              `return "hello";`,
		"x();\n`a\n${y}\n b`":                  `return "a\n".concat(y, "\n b");`,
		"await sophia.orient({})":              "return await sophia.orient({});",
		"({ a: 1 })":                           "return ({ a: 1 });",
		"{ a: 1 }":                             "return { a: 1 };",
		"{ a: 1, b: 2 }":                       "return { a: 1, b: 2 };",
		"const x = 1\n({ x })\n;[x]":           "return [x];",
		"a\n  .b\n  .c;;":                      "return a.b.c;",
		"type A = string\nconst q: A = 'x'\nq": "return q;",
		"do x(); while (y)\n/re/.test('a')":    `return /re/.test("a");`,
		"q! satisfies string":                  "return q;",
		"let async = 1; async":                 "return async;",
		"enum E { A }; E.A":                    "return 0 /* A */;",
		// What folds to a constant is dropped by the printer.
		"x(); -1":                     "x();\n  return -1;",
		"x(); undefined // of course": "x();\n  return void 0;",
		"if (a) { x() } !0":           "}\n  return true;",
		"x(); 'a;'\n  + 'b';\n\n":     "x();\n  return \"a;b\";",
		"x(); -1\n// the end; really": "x();\n  return -1;",
		"const é = 'ü'; é.x(); -1":    ".x();\n  return -1;",
		"x()\n-1":                     "return x() - 1;",
		"q\ntype A = string;":         "return q;",
	} {
		p, err := compile.Compile(code)
		if err != nil {
			t.Errorf("%q: %+v", code, err)
		} else if !strings.Contains(p.JS, want) {
			t.Errorf("%q became\n%s\nwithout %q", code, p.JS, want)
		}
	}
}

func TestCompile_StatementsAreLeftAlone(t *testing.T) {
	for _, code := range []string{
		"const a = 1", "if (a) b(); else c()", "for (const x of y) z(x)", "while (a)\n  b()", "label: for (;;) { break label }",
		"function f() { return 1 }\nclass A {}", "try { a() } catch { b() }", "switch (a) { case 1: b() }", "return 5", "", "// nothing", "do\n  x()\nwhile (y)",
	} {
		p, err := compile.Compile(code)
		if err != nil {
			t.Errorf("%q: %+v", code, err)
		} else if strings.Count(p.JS, "return") != strings.Count(code, "return") {
			t.Errorf("%q became\n%s", code, p.JS)
		}
	}
}

func TestCompile_WholeCodeFunctionAndFences(t *testing.T) {
	for code, sole := range map[string]bool{
		"async () => { return 1 }":                     true,
		"() => 1":                                      true,
		"x => x":                                       true,
		"(async function () { return 1 })":             true,
		"async function main() { return 1 }":           true,
		"```ts\nasync () => { return 1 }\n```":         true,
		"\n\n```\nfunction f() { return 1 }\n```\n":    true,
		"const f = () => 1; f":                         false,
		"(() => 1)()":                                  false,
		"sophia.orient":                                false,
		"```ts\nreturn 1\n```":                         false,
		"(a, b)":                                       false,
		"const t = `\n  () => x\n`; async () => { t }": false,
	} {
		p, err := compile.Compile(code)
		if err != nil {
			t.Errorf("%q: %+v", code, err)
		} else if p.Sole != sole {
			t.Errorf("%q: sole %v, became\n%s", code, p.Sole, p.JS)
		}
	}
}

func TestCompile_SyntaxErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		code         string
		line, column int
		frame, says  string
	}{
		{"const a = 1\nconst x = ;", 2, 11, "const x = ;", "Unexpected"},
		{"const x = ;", 1, 11, "const x = ;", "Unexpected"},
		{"const ü = 'ä' ß ;", 1, 15, "const ü = 'ä' ß ;", "Expected"},
		{"```ts\nlet a: = 3\n```", 2, 8, "let a: = 3", "Unexpected"},
		{"a(\nb", 2, 2, "b", "brackets"},
		{"foo(); }", 1, 9, "foo(); }", "brackets"},
		{"foo(); }); evil(); (async () => {", 1, 34, "foo(); }); evil(); (async () => {", "brackets"},
		{"import x from 'y'\nx", 1, 8, "import x from 'y'", "modules"},
		{"export default 1", 1, 1, "export default 1", "return"},
	} {
		_, err := compile.Compile(c.code)
		if err == nil {
			t.Errorf("%q compiled", c.code)
			continue
		}
		if err.Kind != messages.KindSyntax || err.Line != c.line || err.Column != c.column || err.Frame != c.frame || !strings.Contains(err.Message+err.Hint, c.says) {
			t.Errorf("%q: %+v", c.code, *err)
		}
	}
}

func TestCompile_PositionsMapBack(t *testing.T) {
	for _, code := range []string{
		"BOOM()",
		"interface A { a: string }\n\nconst x: A = { a: 'q' }\n  BOOM()\nreturn 1",
		"```ts\nconst a = 1\nawait BOOM()\n```",
		"const t = `\n\n${BOOM()}`",
		"async () => {\n  const n: number = 2\n  return BOOM()\n}",
		"const a = 1; const b = BOOM()",
	} {
		p, err := compile.Compile(code)
		if err != nil {
			t.Fatalf("%q: %+v", code, err)
		}
		generated := strings.Split(p.JS, "\n")
		for i, line := range generated {
			col := strings.Index(line, "BOOM")
			if col < 0 {
				continue
			}
			wantLine := strings.Count(code[:strings.Index(code, "BOOM")], "\n") + 1
			wantColumn := strings.Index(strings.Split(code, "\n")[wantLine-1], "BOOM") + 1
			if l, c, ok := p.Position(i+1, col+1); !ok || l != wantLine || c != wantColumn {
				t.Errorf("%q: %d:%d %v, want %d:%d\n%s", code, l, c, ok, wantLine, wantColumn, p.JS)
			}
		}
	}
}

// A column counts characters, as people do.
func TestLocate_ColumnsAreOfCharacters(t *testing.T) {
	p, bad := compile.Compile("const a = '😀é'; BOOM()")
	if bad != nil {
		t.Fatal(bad)
	}
	lines := strings.Split(p.JS, "\n")
	for i, line := range lines {
		if at := strings.Index(line, "BOOM"); at >= 0 {
			e := &messages.RunError{}
			p.Locate(e, []string{fmt.Sprintf("    at snippet:%d:%d", i+1, at+1)})
			if e.Line != 1 || e.Column != 17 {
				t.Errorf("%d:%d", e.Line, e.Column)
			}
			return
		}
	}
	t.Error(p.JS)
}

// Whatever follows in a template literal, the statement boundary is found.
func TestCompile_TemplateTextIsNotCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab (){}=>\n;'\"return"))).Draw(t, "text")
		p, err := compile.Compile("x(`" + text + "`)\nconst y = 2\ny")
		if err != nil {
			t.Fatalf("%+v", err)
		}
		if !strings.HasSuffix(p.JS, "\n  const y = 2;\n  return y;\n});") || p.Sole {
			t.Fatalf("became\n%s", p.JS)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"1", "```ts\n1\n```", "foo(); }", "async () => {}", "\x00`\x00`", "import a from 'b'", "class A { #x = 1; static { } }", "{", "})", "@d class A {}", "<div/>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) {
		if len(code) > 2000 {
			t.Skip("nesting is bounded by the worker, not here")
		}
		p, err := compile.Compile(code)
		if (p == nil) == (err == nil) {
			t.Fatal("neither a program nor an error")
		}
		lines := strings.Count(code, "\n") + 1
		if err != nil && (err.Kind != messages.KindSyntax || err.Line < 0 || err.Line > lines) {
			t.Fatalf("%+v", *err)
		}
		if p != nil {
			if !strings.HasSuffix(p.JS, "});") {
				t.Fatalf("not a function: %q", p.JS)
			}
			p.Locate(&messages.RunError{}, script.Frames("Error\n    at f (snippet:2:9)\n    at async snippet:3:1"))
		}
	})
}
