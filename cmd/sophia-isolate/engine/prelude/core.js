// The first of the prelude's files. They share one function scope, in which
// everything of the language that the bridge depends on is taken before the
// snippet can replace it. `host` has the calls into the worker and `limits` its
// numbers; neither is reachable from the snippet.
const {
  Array: A, Error: E, TypeError: TE, RangeError: RE, ReferenceError: RefE, Object: O, Promise: P, Proxy: Px, Map: M, Set: S,
  String: Str, Number: N, Symbol: Sym, JSON: J, Reflect: R, Math: Mt, Date: D, RegExp: Rx, ArrayBuffer: AB, Uint8Array: U8, WeakMap: WM,
} = globalThis;
const { stringify, parse } = J;
const { create, defineProperty, freeze, getPrototypeOf, keys, entries } = O;
const isArray = A.isArray;
const captureStackTrace = E.captureStackTrace;
const uncurry = (f) => { const call = Function.prototype.call; return R.apply(Function.prototype.bind, call, [f]); };
const hasOwn = uncurry(O.prototype.hasOwnProperty);
const mapGet = uncurry(M.prototype.get), mapSet = uncurry(M.prototype.set), mapHas = uncurry(M.prototype.has), mapDelete = uncurry(M.prototype.delete);
const weakGet = uncurry(WM.prototype.get), weakSet = uncurry(WM.prototype.set), weakHas = uncurry(WM.prototype.has);
const then = uncurry(P.prototype.then);
const slice = uncurry(Str.prototype.slice), lower = uncurry(Str.prototype.toLowerCase), join = uncurry(A.prototype.join), push = uncurry(A.prototype.push);
const startsWith = uncurry(Str.prototype.startsWith);

delete E.stackTraceLimit;
defineProperty(E, 'stackTraceLimit', { __proto__: null, value: 20, writable: true, configurable: true, enumerable: true });

const hidden = (target, name, value) => defineProperty(target, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

// Text that never throws: what a snippet throws or logs may have any getter.
const text = (v) => { try { return typeof v === 'symbol' ? Sym.prototype.toString.call(v) : `${v}`; } catch { return '[unprintable]'; } };

// The nearest of the candidates by edit distance, or undefined when none is near.
const nearest = (name, candidates) => {
  const plain = (s) => { let out = ''; for (let i = 0; i < s.length; i++) if (s[i] !== '_' && s[i] !== '.' && s[i] !== '-') out += s[i]; return lower(out); };
  const given = slice(plain(name), 0, 64);
  let best, bestAt = Mt.max(2, Mt.ceil(given.length * 0.4)) + 1;
  for (let k = 0; k < candidates.length; k++) {
    const other = plain(candidates[k]);
    let row = [];
    for (let j = 0; j <= other.length; j++) row[j] = j;
    for (let i = 1; i <= given.length; i++) {
      const next = [i];
      for (let j = 1; j <= other.length; j++) {
        next[j] = Mt.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (given[i - 1] === other[j - 1] ? 0 : 1));
      }
      row = next;
    }
    if (row[other.length] < bestAt) { bestAt = row[other.length]; best = candidates[k]; }
  }
  return best;
};
