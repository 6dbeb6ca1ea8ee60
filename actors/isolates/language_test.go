package isolates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sophia/actors/isolates"
	"sophia/messages"
)

func TestRun_Language(t *testing.T) {
	w := real(t, isolates.Config{Warm: 3})
	for code, want := range map[string]string{
		"1 + 1":                      `2`,
		"const x: number = 2\nx * 3": `6`,
		"return await Promise.all([sophia.queryKnowledge({}), sophia.orient()]).then(([a, b]) => [a.total, b.identity])": `[2,"me"]`,
		"```ts\nasync () => { const r = await sophia.searchDocuments({ query: 'x' }); return r.items[0].args }\n```":     `{"query":"x"}`,
		"async function main() { return 'called' }": `"called"`,
		"const a = 1":                        ``,
		"new Map([['a', new Set([1, 2n])]])": `{"a":[1,"2"]}`,
		"({ e: new RangeError('no'), n: NaN, d: new Date(0) })":   `{"e":{"name":"RangeError","message":"no"},"n":null,"d":"1970-01-01T00:00:00.000Z"}`,
		"input.rows.map((r: number) => r * 2)":                    `[2,4]`,
		"Object.keys(sophia)":                                     `["queryKnowledge","searchDocuments","orient","rememberFact","hang","huge"]`,
		"'queryKnowledge' in sophia && !('nope' in sophia)":       `true`,
		"await new Promise(r => setTimeout(() => r('later'), 5))": `"later"`,
		"let n = 0; const t = setTimeout(() => n++, 1); clearTimeout(t); await new Promise(r => setTimeout(r, 5)); n": `0`,
		"await new Promise(r => queueMicrotask(() => r(1)))":                                                          `1`,
		"const a: any = { m: new Map([[1, new Date(5)]]), s: new Set([1]), u: new Uint8Array([1, 2]) }; a.self = a; const c = structuredClone(a); [c.self === c, c !== a, +c.m.get(1), c.s.has(1), [...c.u]]": `[true,true,5,true,[1,2]]`,
		"try { structuredClone(() => 1) } catch (e) { e.name }\n'x'":                                                                                                      `"x"`,
		"[...new TextEncoder().encode('aé€😀\\ud800')]":                                                                                                                    `[97,195,169,226,130,172,240,159,152,128,239,191,189]`,
		"new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 97, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80, 0xff, 0xe2, 0x82]))":                                          `"aé😀��"`,
		"try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff])); return 'no' } catch (e) { return e.name }":                                       `"TypeError"`,
		"[btoa('hello'), atob('aGVsbG8='), atob(' aGVs bG8 '), btoa(''), atob(btoa('\\xff\\x00a'))]":                                                                      `["aGVsbG8=","hello","hello","","ÿ\u0000a"]`,
		"try { return btoa('€') } catch (e) { return e.name }":                                                                                                            `"InvalidCharacterError"`,
		"/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()) && crypto.randomUUID() !== crypto.randomUUID()":                `true`,
		"const u = new URL('../b?x=1&y=a%20b#h', 'HTTPS://u:p@Example.com:443/a/c/d'); [u.href, u.origin, u.host, u.pathname, u.search, u.hash, u.searchParams.get('y')]": `["https://u:p@example.com/a/b?x=1\u0026y=a%20b#h","https://example.com","example.com","/a/b","?x=1\u0026y=a%20b","#h","a b"]`,
		"const u = new URL('http://h/p'); u.searchParams.append('q', 'a b&c'); u.pathname = 'z'; u.hash = 'k'; String(u)":                                                 `"http://h/z?q=a+b%26c#k"`,
		"[URL.canParse('nope'), URL.canParse('a:b'), new URL('mailto:a@b').pathname, new URL('http://h:8080').host, new URL('http://h').href]":                            `[false,true,"a@b","h:8080","http://h/"]`,
		"[...new URLSearchParams({ a: 1, b: 'x y' })].join()":                                                                                                             `"a,1,b,x y"`,
		"enum Colour { Red = 'r' } const c: Colour = Colour.Red; c":                                                                                                       `"r"`,
		"class A { #x = 1; get x() { return this.#x } static y = 0; static { A.y = 2 } }\n[new A().x, A.y]":                                                               `[1,2]`,
		"label: for (const a of [1]) { continue label }\nawait (async () => 7)()":                                                                                         `7`,
		"const docs = await sophia.searchDocuments({ query: 'x' }); ({ ...docs, items: docs.items.length })":                                                              `{"items":2,"total":2}`,
		"const docs = await sophia.searchDocuments({ query: 'x' }); docs.hits = 3; docs.hits":                                                                             `3`,
		"(await sophia.queryKnowledge({ when: new Date(0), big: 12n })).items[0].args":                                                                                    `{"when":"1970-01-01T00:00:00.000Z","big":"12"}`,
		"try { await sophia.rememberFact({}) } catch (e) { return [e.name, e.code, e.tool, e.hint, e instanceof Error, e.message] }":                                      `["SophiaError","approval_denied","sophia.remember_fact","Ask the owner.",true,"The owner denied remember_fact: Ask the owner."]`,
		"[typeof fetch, typeof require, typeof process, typeof WebAssembly, typeof SharedArrayBuffer, typeof Buffer]":                                                     `["function","function","object","undefined","undefined","undefined"]`,
	} {
		r := w.runWith(t, messages.RunRequest{Code: code, Methods: methods, Input: json.RawMessage(`{"rows":[1,2]}`)}, standard())
		if r.Status != messages.RunOK || !same(t, r.Value, want) {
			t.Errorf("%s\n gave %s, want %s; error %+v", code, r.Value, want, r.Error)
		}
	}
}

// same compares JSON by value; an absent value is "".
func same(t *testing.T, got json.RawMessage, want string) bool {
	if len(got) == 0 || want == "" {
		return len(got) == 0 && want == ""
	}
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Errorf("not JSON: %s or %s", got, want)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func TestRun_ErrorsCorrect(t *testing.T) {
	w := real(t, isolates.Config{Warm: 3})
	for _, c := range []struct {
		code, kind string
		line       int
		says       string
	}{
		{"const r = await sophia.searchDocuments({ query: 'x' })\nr.hits", "type", 2, "read '.items'/'.total' — 'hits' was removed by the uniform result envelope"},
		{"const r = await sophia.searchDocuments({ query: 'x' })\nreturn r.map(x => x)", "type", 2, "read '.items.map'"},
		{"for (const x of await sophia.searchDocuments({ query: 'x' })) {}", "type", 1, "iterate '.items'"},
		{"await sophia.serchDocuments({ query: 'x' })", "type", 1, "did you mean sophia.searchDocuments?"},
		{"\nawait sophia.query_knowledge({})", "type", 2, "did you mean sophia.queryKnowledge?"},
		{"sophia.zzzzzzzzzzzzzzzzzzzz()", "type", 1, "Object.keys(sophia)"},
		{"sophia.getSdkTypes()", "type", 1, "direct MCP call"},
		{"sophia.executeCode({})", "type", 1, "inside a run"},
		{"sophia.queryKnowledge('x')", "type", 1, "one object of named arguments"},
		{"sophia.queryKnowledge({}, 1)", "type", 1, "one object of named arguments"},
		{"sophia.orient = 1", "type", 1, "read-only"},
		{"tools.query_knowledge({})", "type", 1, "write sophia.queryKnowledge({ … })"},
		{"functions.queryKnowledge({})", "type", 1, "write sophia.queryKnowledge"},
		{"mcp.sophia.orient()", "type", 1, "sophia.<method>"},
		{"fetch('https://example.com')", "type", 1, "there is no network inside"},
		{"require('fs')", "type", 1, "no modules inside"},
		{"await import('fs')", "type", 1, "no modules inside"},
		{"import fs from 'fs'", "syntax", 1, "no modules inside"},
		{"process.env.HOME", "type", 1, "no operating system inside"},
		{"fs.readFileSync('/etc/passwd')", "type", 1, "no files inside"},
		{"Buffer.from('x')", "runtime", 1, "TextEncoder"},
		{"queryKnowledge({})", "runtime", 1, "sophia.queryKnowledge"},
		{"setInterval(() => 1, 5)", "runtime", 1, "setTimeout"},
		{"const a = {}\n\na.b.c", "runtime", 3, "Cannot read properties of undefined"},
		{"interface X { a: string }\n\nfunction f(x: X) {\n  throw new RangeError('boom ' + x.a)\n}\nf({ a: 'q' })", "runtime", 4, "boom q"},
		{"throw 'text'", "runtime", 0, "text"},
		{"throw { code: 5 }", "runtime", 0, `{"code":5}`},
		{"throw null", "runtime", 0, "null"},
		{"setTimeout(() => { throw new Error('late') }, 1)\nawait new Promise(() => {})", "runtime", 1, "late"},
		{"await new Promise(() => {})", "runtime", 0, "nothing will settle"},
		{"const a: any = {}; a.a = a; a", "runtime", 0, "refers to itself"},
		{"() => () => 1", "runtime", 0, "function"},
		{"Symbol('s')", "runtime", 0, "symbol"},
		{"'x'.repeat(200000)", "runtime", 0, "string of 200000"},
		{"Array.from({ length: 30000 }, (_, id) => ({ id, title: 't' }))", "runtime", 0, "array of 30000 × { id: number, title: string of 1 }"},
		{"const x = ;", "syntax", 1, "Unexpected"},
		{"foo(", "syntax", 1, "brackets"},
		{"/(/.test('x')", "syntax", 1, "regular expression"},
		{"eval('1')", "runtime", 1, "switched off"},
		{"new Function('return 1')()", "runtime", 1, "switched off"},
		{"function f() { return f() + 1 } f()", "runtime", 0, "use a loop"},
		{"await sophia.rememberFact({})", "approval", 1, "The owner denied remember_fact"},
		{"for (let i = 0; i < 51; i++) await sophia.orient()", "budget", 1, "at most 50"},
		{"new ArrayBuffer(3e9)", "memory", 1, "allocation failed"},
	} {
		r := w.run(t, c.code)
		if r.Error == nil {
			t.Errorf("%s\n returned %s", c.code, r.Value)
			continue
		}
		all := r.Error.Message + " | " + r.Error.Hint
		if r.Error.Kind != c.kind || r.Error.Line != c.line || !strings.Contains(all, c.says) {
			t.Errorf("%s\n gave %+v, want %s at line %d saying %q", c.code, *r.Error, c.kind, c.line, c.says)
		}
		if c.line > 0 && r.Error.Frame != strings.Split(c.code, "\n")[c.line-1] {
			t.Errorf("%s\n shows the line %q", c.code, r.Error.Frame)
		}
		for _, frame := range r.Error.Stack {
			if strings.Contains(frame, "prelude") {
				t.Errorf("%s\n shows the prelude: %q", c.code, r.Error.Stack)
			}
		}
	}
}

func TestRun_LogsAreKeptInOrderAndCapped(t *testing.T) {
	w := real(t, isolates.Config{})
	r := w.run(t, "console.log('a', { b: 1 }, [2]); console.error(new Map([['k', 1]])); console.warn(undefined, null, 5n)")
	if got := strings.Join(r.Logs, "\n"); got != "a {\"b\":1} [2]\nerror: {\"k\":1}\nwarn: undefined null 5" {
		t.Errorf("logs: %q", got)
	}
	r = w.run(t, "for (let i = 0; i < 1e5; i++) console.log('line', i)\n'done'")
	if len(r.Logs) != 201 || r.Logs[199] != "line 199" || !strings.Contains(r.Logs[200], "further lines are dropped") || string(r.Value) != `"done"` {
		t.Errorf("%d lines, the last %q; value %s", len(r.Logs), r.Logs[len(r.Logs)-1], r.Value)
	}
	r = w.run(t, "for (let i = 0; i < 1e4; i++) console.log('x'.repeat(1e4))")
	total := 0
	for _, l := range r.Logs {
		total += len(l)
	}
	if total > 64<<10 || len(r.Logs) < 2 || !strings.Contains(r.Logs[0], "10000 characters") {
		t.Errorf("%d bytes in %d lines", total, len(r.Logs))
	}
	// What was logged before the end survives it.
	r = w.runWith(t, messages.RunRequest{Code: "console.log('before'); while (true) {}", TimeoutMS: 200}, standard())
	if len(r.Logs) != 1 || r.Logs[0] != "before" || r.Error == nil || r.Error.Kind != messages.KindTimeout {
		t.Errorf("after a time-out: %+v", r)
	}
}
