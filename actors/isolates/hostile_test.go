package isolates_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"sophia/actors/isolates"
	"sophia/messages"
)

// hostile is what a snippet may try. ends are the ways in which the run may end:
// "ok" or kinds of errors. Whatever it is, the daemon goes on, the result is
// well-formed, and the next run finds nothing of it.
var hostile = []struct{ name, code, ends string }{
	// Memory: each escape from V8's heap limit that was seen.
	{"heap: array", "const a = []; for (;;) a.push({ x: a.length })", "memory"},
	{"heap: strings", "let s = 'x'; for (;;) s += s + 'y'", "memory runtime"},
	{"heap: flattened string", "let s = 'x'.repeat(1 << 28); s[0]; const k = {}; k[s] = 1; s.length", "memory runtime ok"},
	{"heap: many strings", "const a = []; for (let i = 0; ; i++) a.push(('' + i).repeat(1000))", "memory"},
	{"heap: typed arrays", "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", "memory"},
	{"heap: one array buffer", "new ArrayBuffer(2 ** 40)", "memory"},
	{"heap: huge array", "new Array(2 ** 32 - 1).fill(0)", "memory timeout runtime"},
	{"heap: sparse join", "const a = []; a[2 ** 31] = 1; a.join('x').length", "memory timeout runtime"},
	{"heap: regexp", "new RegExp('a'.repeat(1e6)).test('b'.repeat(1e6))", "ok memory runtime timeout syntax"},
	{"heap: split", "'x'.repeat(1 << 24).split('')", "memory runtime"},
	{"heap: bigint", "let b = 2n; for (;;) b = b ** 2n", "memory runtime timeout"},
	{"heap: map", "const m = new Map(); for (let i = 0; ; i++) m.set(i, [i])", "memory"},
	{"heap: closures", "let f = () => 1; for (;;) { const g = f; f = () => g; globalThis.k = [f, globalThis.k] }", "memory"},
	{"heap: promises", "const p = []; for (;;) p.push(new Promise(() => {}))", "memory"},
	{"heap: json", "JSON.parse('[' .repeat(1e6))", "runtime memory"},
	{"heap: spread", "Math.max(...new Array(1e6).fill(1))", "runtime memory ok"},
	{"heap: caught", "const a = []; try { for (;;) a.push(new Array(1e5).fill(1)) } catch { } finally { for (;;) a.push(1) }", "memory"},
	{"heap: structuredClone", "let a: any = []; for (let i = 0; i < 30; i++) a = [a, a]; structuredClone(a); JSON.stringify(a).length", "memory ok runtime timeout"},
	{"heap: timers", "for (;;) setTimeout(() => {}, 1e9)", "type"},
	{"wasm", "new WebAssembly.Memory({ initial: 65536 })", "runtime"},

	// Time.
	{"time: loop", "while (true) {}", "timeout"},
	{"time: loop in catch", "for (;;) { try { for (;;) {} } catch { } finally { continue } }", "timeout"},
	{"time: unkillable builtin", "Array.prototype.indexOf.call({ length: 1e12 }, 5)", "timeout"},
	{"time: sort", "const a = new Array(1e5).fill(0).map((_, i) => -i); for (;;) a.sort(() => Math.random() - 0.5)", "timeout memory"},
	{"time: redos", "/^(a+)+$/.test('a'.repeat(40) + 'b')", "ok"},
	{"time: redos with backreference", "/^(a+)+\\1$/.test('a'.repeat(40) + 'b')", "timeout ok"},
	{"time: microtasks", "const f = () => Promise.resolve().then(f); await f()", "timeout memory"},
	{"time: async loop", "for (;;) await null", "timeout"},
	{"time: generator", "function* g() { for (;;) yield 1 } for (const x of g()) {}", "timeout"},
	{"time: getter in the result", "({ get x() { for (;;) {} } })", "timeout"},
	{"time: toJSON", "({ toJSON() { for (;;) {} } })", "timeout"},
	{"time: toString of an error", "throw { get message() { for (;;) {} }, toString() { for (;;) {} } }", "timeout runtime"},
	{"time: proxy trap", "new Proxy({}, { ownKeys() { for (;;) {} } })", "timeout"},
	{"time: replaced replace", "'x'.replace(/x/, () => { for (;;) {} })", "timeout"},
	{"time: date", "while (Date.now() > 0) new Date().toISOString()", "timeout"},
	{"time: string repeat compare", "const a = 'x'.repeat(5e6) ; for (;;) (a + '1') < (a + '2')", "timeout memory"},
	{"time: thenable", "({ then(r) { r(this) } })", "timeout runtime memory"},

	// Flooding.
	{"flood: logs", "for (;;) console.log('x'.repeat(1000))", "timeout"},
	{"flood: a huge line", "console.log('x'.repeat(6e6)); 1", "ok memory"},
	{"flood: 10,000 calls at once", "await Promise.all(Array.from({ length: 10000 }, () => sophia.orient()))", "budget"},
	{"flood: 10,000 calls, settled", "(await Promise.allSettled(Array.from({ length: 10000 }, () => sophia.orient()))).filter(x => x.status === 'fulfilled').length", "ok"},
	{"flood: huge arguments", "await sophia.queryKnowledge({ q: 'x'.repeat(2e6) })", "type"},
	{"flood: deep arguments", "let a: any = {}; for (let i = 0; i < 1e5; i++) a = { a }; await sophia.queryKnowledge(a)", "runtime memory"},
	{"flood: calls that nobody awaits", "for (let i = 0; i < 50; i++) sophia.hang(); 'gone'", "ok"},
	{"flood: a huge result", "await sophia.huge(); 'read'", "memory ok"},
	{"flood: deep code", strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000), "syntax crash memory runtime timeout"},
	{"flood: deep arrays", strings.Repeat("[", 100000) + strings.Repeat("]", 100000), "syntax crash memory runtime timeout"},
	{"flood: unary operators", strings.Repeat("!", 200000) + "1", "syntax crash memory runtime ok timeout"},
	{"flood: long expression", "1" + strings.Repeat("+x", 100000), "runtime syntax crash memory timeout"},
	{"flood: deep value", "let a: any = []; for (let i = 0; i < 1e5; i++) a = [a]; a", "runtime memory"},

	// Values on the way out.
	{"value: cyclic", "const a: any = []; a.push(a); a", "runtime"},
	{"value: throwing getter", "({ get x() { throw new Error('no') } })", "runtime"},
	{"value: throwing proxy", "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })", "runtime"},
	{"value: revoked proxy", "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); proxy", "runtime"},
	{"value: throws undefined", "throw undefined", "runtime"},
	{"value: throws a proxy", "throw new Proxy(new Error('x'), { get() { throw 'again' }, getPrototypeOf() { throw 'again' } })", "runtime"},
	{"value: error with getters", "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); Object.defineProperty(e, 'message', { get() { throw 1 } }); throw e", "runtime"},
	{"value: symbol-keyed", "({ [Symbol.toPrimitive]() { throw 1 }, [Symbol.toStringTag]: 'x' })", "ok"},
	{"value: lone surrogates and NUL", "'\\ud800\\u0000\\udfff'", "ok"},
	{"value: __proto__ key", "JSON.parse('{\"__proto__\": {\"a\": 1}}')", "ok"},

	// Pollution of what the bridge uses.
	{"pollution: Object.prototype", "Object.prototype.items = []; Object.prototype.total = 1; Object.prototype.kind = 'ok'; (await sophia.queryKnowledge({})).total", "ok"},
	{"pollution: toJSON", "Object.prototype.toJSON = () => { throw 1 }; ({})", "runtime"},
	{"pollution: toJSON forges", "Object.prototype.toJSON = () => ({ kind: 'nonsense', message: 5, line: 'x' }); throw new Error('x')", "runtime"},
	{"pollution: JSON", "JSON.stringify = () => '}{'; JSON.parse = () => { throw 1 }; (await sophia.queryKnowledge({})).total", "ok"},
	{"pollution: Array iterator", "Array.prototype[Symbol.iterator] = function* () { throw 1 }; Array.prototype.push = () => { throw 2 }; sophia.orient()", "ok runtime"},
	{"pollution: Promise", "Promise.prototype.then = () => { throw 1 }; Promise.resolve = () => { throw 1 }; globalThis.Promise = null; await sophia.orient()", "ok runtime"},
	{"pollution: Promise species", "Object.defineProperty(Promise.prototype, 'constructor', { get() { throw 1 } }); 5", "ok runtime"},
	{"pollution: Map", "Map.prototype.get = () => { throw 1 }; Map.prototype.has = () => true; await sophia.orient()", "ok"},
	{"pollution: Function.prototype", "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1 }; await sophia.orient()", "ok"},
	{"pollution: Error", "Error.prepareStackTrace = () => { throw 1 }; Error.captureStackTrace = null; throw new Error('x')", "runtime"},
	{"pollution: setters", "for (const k of ['0', 'kind', 'name', 'then']) Object.defineProperty(Object.prototype, k, { set() { throw 1 }, get() { return undefined }, configurable: true }); await sophia.queryKnowledge({ a: [1] })", "ok runtime type"},

	// Reaching for the bridge and the host.
	{"reach: call sites", "Error.prepareStackTrace = (_, s) => s; const e: any = new Error('x'); e.stack.map((f: any) => { const g = f.getFunction(); const t = f.getThis(); return [typeof g, t === globalThis || t === undefined] })", "ok"},
	{"reach: caller", "function f() { return (f as any).caller.arguments } [1].map(f)", "runtime ok"},
	{"reach: constructor chain", "sophia.orient.constructor('return this')()", "runtime"},
	{"reach: host names", "[typeof __host, typeof host, typeof limits, typeof offer, typeof settle, typeof host_call]", "ok"},
	{"reach: globals", "Object.getOwnPropertyNames(globalThis).filter(k => /host|prelude|settle|offer|gc|d8|print|load|quit/.test(k))", "ok"},
	{"reach: async constructor", "(async () => {}).constructor('return 1')()", "runtime"},
	{"reach: generator constructor", "(function* () {}).constructor('yield 1')().next()", "runtime"},
	{"reach: indirect eval", "(0, eval)('1')", "runtime"},
	{"reach: setTimeout with a string", "setTimeout('1', 1)", "runtime"},
	{"reach: import.meta", "import.meta.url", "syntax runtime"},
	{"reach: out of the wrapper", "}); globalThis.x = 1; (async () => {", "syntax"},
	{"reach: html comment", "1 <!-- 2\n3", "ok syntax runtime"},
	{"reach: forged settle", "sophia.orient().constructor.prototype.then.call(sophia.hang(), () => 1); 1", "ok"},
	{"reach: fake SophiaError", "const e: any = new Error('x'); e.name = 'SophiaError'; e.code = 'approval_denied'; throw e", "runtime"},
	{"reach: native syntax", "%DebugPrint(1)", "syntax"},
	{"reach: finalizers", "const r = new FinalizationRegistry(() => { for (;;) {} }); r.register({}, 1); for (let i = 0; i < 1e4; i++) new Array(100); 1", "ok timeout"},
	{"reach: ends twice", "setTimeout(() => { throw 1 }, 0); await null; throw 2", "runtime"},
}

func TestRun_HostileSnippetsHurtNobody(t *testing.T) {
	w := real(t, isolates.Config{Warm: 3, Max: 3})
	before := runtime.NumGoroutine()
	if len(hostile) < 60 {
		t.Fatalf("only %d snippets", len(hostile))
	}
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			limit := 1500
			if !strings.Contains(h.ends, "timeout") { // it ends by itself, on a busy machine later
				limit = 15_000
			}
			r := w.runWith(t, messages.RunRequest{Code: h.code, Methods: methods, TimeoutMS: limit}, standard())
			end := r.Status
			if r.Error != nil {
				end = r.Error.Kind
			}
			if !slices.Contains(strings.Fields(h.ends), end) {
				t.Errorf("ended with %s, not %s: %.300s %+v", end, h.ends, r.Value, r.Error)
			}
			if r.Error != nil && (end == "timeout" || end == "memory" || end == "budget") && (r.Error.Limit == "" || r.Error.Hint == "") {
				t.Errorf("does not say how to stay inside the limit: %+v", r.Error)
			}
			next := w.run(t, "const r = await sophia.queryKnowledge({ n: 1 }); [r.total, typeof x, Object.keys(Object.prototype).length, [...[1]][0], JSON.stringify({ a: 1 })]")
			if string(next.Value) != `[2,"undefined",0,1,"{\"a\":1}"]` {
				t.Errorf("the next run is not clean: %s %+v", next.Value, next.Error)
			}
		})
	}
	w.idle(t)
	if after := runtime.NumGoroutine(); after > before+30 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

func TestRun_HostileReachesNothing(t *testing.T) {
	w := real(t, isolates.Config{})
	for code, want := range map[string]string{
		hostileCode("reach: host names"): `["undefined","undefined","undefined","undefined","undefined","undefined"]`,
		hostileCode("reach: globals"):    `[]`,
	} {
		if r := w.run(t, code); string(r.Value) != want {
			t.Errorf("%s gave %s, %+v", code, r.Value, r.Error)
		}
	}
	// No frame of the prelude gives out its function or its receiver.
	r := w.run(t, hostileCode("reach: call sites"))
	if strings.Count(string(r.Value), `"function"`) > 1 || strings.Contains(string(r.Value), "false") {
		t.Errorf("call sites: %s", r.Value)
	}
}

func hostileCode(name string) string {
	for _, h := range hostile {
		if h.name == name {
			return h.code
		}
	}
	panic("no snippet " + name)
}
