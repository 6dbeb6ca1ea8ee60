// The few Web APIs that orchestration code expects.
const timers = new M();
let timerSequence = 0, timersOpen = 0;
hidden(globalThis, 'setTimeout', function setTimeout(f, ms, ...args) {
  if (typeof f !== 'function') throw new TE('setTimeout needs a function');
  if (timersOpen >= limits.timers) throw corrective(RE, `at most ${limits.timers} timers may be under way at once`);
  const id = ++timerSequence;
  const wait = +ms;
  mapSet(timers, id, [f, args]);
  timersOpen++;
  host.timer(id, wait > 0 ? Mt.min(wait, limits.timerMS) : 0);
  return id;
});
hidden(globalThis, 'clearTimeout', function clearTimeout(id) {
  if (mapDelete(timers, id)) { timersOpen--; host.untimer(id); }
});
const fire = (id) => {
  const timer = mapGet(timers, id);
  if (timer === undefined) return;
  mapDelete(timers, id);
  timersOpen--;
  try { R.apply(timer[0], undefined, timer[1]); } catch (e) { fail(e); }
};
hidden(globalThis, 'queueMicrotask', function queueMicrotask(f) {
  if (typeof f !== 'function') throw new TE('queueMicrotask needs a function');
  then(P.resolve(), () => { try { f(); } catch (e) { fail(e); } });
});

class DOMException extends E {
  constructor(message = '', name = 'Error') { super(message); hidden(this, 'name', name); }
}
hidden(globalThis, 'DOMException', DOMException);

hidden(globalThis, 'structuredClone', function structuredClone(value) {
  const seen = new M();
  const refuse = (v) => { throw new DOMException(`${text(typeof v)} could not be cloned`, 'DataCloneError'); };
  const clone = (v) => {
    if (typeof v === 'function' || typeof v === 'symbol') refuse(v);
    if (v === null || typeof v !== 'object') return v;
    if (mapHas(seen, v)) return mapGet(seen, v);
    const keep = (c) => { mapSet(seen, v, c); return c; };
    if (isArray(v)) { const out = keep(new A(v.length)); const ks = keys(v); for (let i = 0; i < ks.length; i++) out[ks[i]] = clone(v[ks[i]]); return out; }
    if (v instanceof D) return keep(new D(+v));
    if (v instanceof Rx) return keep(new Rx(v.source, v.flags));
    if (v instanceof M) { const out = keep(new M()); for (const [k, x] of v) mapSet(out, clone(k), clone(x)); return out; }
    if (v instanceof S) { const out = keep(new S()); for (const x of v) out.add(clone(x)); return out; }
    if (v instanceof AB) return keep(v.slice(0));
    if (AB.isView(v)) return keep(v instanceof DataView ? new DataView(v.buffer.slice(v.byteOffset, v.byteOffset + v.byteLength)) : v.slice());
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return keep(O(v.valueOf()));
    if (v instanceof E) { const Type = { EvalError, RangeError: RE, ReferenceError: RefE, SyntaxError, TypeError: TE, URIError }[v.name] ?? E; return keep(new Type(text(v.message))); }
    if (v instanceof WM || v instanceof P || v instanceof WeakSet) refuse(v);
    const out = keep({});
    const ks = keys(v);
    for (let i = 0; i < ks.length; i++) defineProperty(out, ks[i], { __proto__: null, value: clone(v[ks[i]]), writable: true, enumerable: true, configurable: true });
    return out;
  };
  return clone(value);
});

hidden(globalThis, 'TextEncoder', class TextEncoder {
  get encoding() { return 'utf-8'; }
  encode(s = '') {
    s = `${s}`;
    const out = new U8(s.length * 3);
    let n = 0;
    for (let i = 0; i < s.length; i++) {
      let c = s.codePointAt(i);
      if (c > 0xffff) i++;
      else if (c >= 0xd800 && c <= 0xdfff) c = 0xfffd;
      if (c < 0x80) out[n++] = c;
      else if (c < 0x800) { out[n++] = 0xc0 | c >> 6; out[n++] = 0x80 | c & 63; }
      else if (c < 0x10000) { out[n++] = 0xe0 | c >> 12; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63; }
      else { out[n++] = 0xf0 | c >> 18; out[n++] = 0x80 | c >> 12 & 63; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63; }
    }
    return out.slice(0, n);
  }
});

hidden(globalThis, 'TextDecoder', class TextDecoder {
  #fatal; #bom;
  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    if (!['utf-8', 'utf8', 'unicode-1-1-utf-8'].includes(lower(`${label}`).trim())) throw new RE(`TextDecoder: only utf-8 is available, not ${text(label)}`);
    this.#fatal = fatal; this.#bom = ignoreBOM;
  }
  get encoding() { return 'utf-8'; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#bom; }
  decode(view) {
    if (view === undefined) return '';
    const b = AB.isView(view) ? new U8(view.buffer, view.byteOffset, view.byteLength) : new U8(view);
    const parts = [];
    let out = '';
    const bad = () => { if (this.#fatal) throw new TE('The encoded data was not valid utf-8'); out += '\ufffd'; };
    for (let i = 0; i < b.length;) {
      const c = b[i];
      // Lead byte → number of bytes, lowest and highest second byte (Unicode 15, table 3-7).
      const n = c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
      if (n === 1) { out += Str.fromCharCode(c); i++; }
      else if (n === 0) { bad(); i++; }
      else {
        const low = c === 0xe0 ? 0xa0 : c === 0xf0 ? 0x90 : 0x80, high = c === 0xed ? 0x9f : c === 0xf4 ? 0x8f : 0xbf;
        let k = 1, v = c & (0xff >> n + 1);
        for (; k < n && i + k < b.length; k++) {
          const d = b[i + k];
          if (d < (k === 1 ? low : 0x80) || d > (k === 1 ? high : 0xbf)) break;
          v = v << 6 | d & 63;
        }
        if (k === n) out += Str.fromCodePoint(v); else bad();
        i += k;
      }
      if (out.length > 4096) { push(parts, out); out = ''; }
    }
    push(parts, out);
    const whole = join(parts, '');
    return !this.#bom && whole[0] === '\ufeff' ? slice(whole, 1) : whole;
  }
});

const base64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
hidden(globalThis, 'btoa', function btoa(s) {
  s = `${s}`;
  let out = '';
  for (let i = 0; i < s.length; i += 3) {
    const n = Mt.min(3, s.length - i);
    let v = 0;
    for (let k = 0; k < 3; k++) {
      const c = k < n ? s.charCodeAt(i + k) : 0;
      if (c > 255) throw new DOMException('btoa takes characters up to U+00FF: encode with TextEncoder first', 'InvalidCharacterError');
      v = v << 8 | c;
    }
    out += base64[v >> 18] + base64[v >> 12 & 63] + (n > 1 ? base64[v >> 6 & 63] : '=') + (n > 2 ? base64[v & 63] : '=');
  }
  return out;
});
hidden(globalThis, 'atob', function atob(s) {
  s = `${s}`.replace(/[\t\n\f\r ]/g, '');
  if (s.length % 4 === 0) s = s.replace(/==?$/, '');
  let out = '', bits = 0, held = 0;
  if (s.length % 4 === 1) throw new DOMException('The string is not base64', 'InvalidCharacterError');
  for (let i = 0; i < s.length; i++) {
    const v = base64.indexOf(s[i]);
    if (v < 0) throw new DOMException('The string is not base64', 'InvalidCharacterError');
    held = held << 6 | v;
    bits += 6;
    if (bits >= 8) { bits -= 8; out += Str.fromCharCode(held >> bits & 255); held &= (1 << bits) - 1; }
  }
  return out;
});

hidden(globalThis, 'crypto', freeze({ __proto__: null, randomUUID: () => host.uuid() }));
