// URL and URLSearchParams. Parsing is the worker's; parts are kept here.
const formEncode = (s) => encodeURIComponent(`${s}`).replace(/[!'()~]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase()).replace(/%20/g, '+');
const formDecode = (s) => { s = s.replace(/\+/g, ' '); try { return decodeURIComponent(s); } catch { return s; } };

class URLSearchParams {
  #pairs = []; #changed = () => {};
  constructor(init = '', changed) {
    if (typeof changed === 'function') this.#changed = changed;
    if (init !== null && typeof init === 'object') {
      const given = init[Sym.iterator] === undefined ? entries(init) : [...init];
      for (const [k, v] of given) this.#pairs.push([`${k}`, `${v}`]);
    } else {
      const s = `${init}`.replace(/^\?/, '');
      for (const part of s.split('&')) {
        if (part === '') continue;
        const at = part.indexOf('=');
        this.#pairs.push(at < 0 ? [formDecode(part), ''] : [formDecode(part.slice(0, at)), formDecode(part.slice(at + 1))]);
      }
    }
  }
  get size() { return this.#pairs.length; }
  append(k, v) { this.#pairs.push([`${k}`, `${v}`]); this.#changed(); }
  delete(k) { this.#pairs = this.#pairs.filter((p) => p[0] !== `${k}`); this.#changed(); }
  get(k) { const p = this.#pairs.find((x) => x[0] === `${k}`); return p === undefined ? null : p[1]; }
  getAll(k) { return this.#pairs.filter((p) => p[0] === `${k}`).map((p) => p[1]); }
  has(k) { return this.#pairs.some((p) => p[0] === `${k}`); }
  set(k, v) {
    const at = this.#pairs.findIndex((p) => p[0] === `${k}`);
    if (at < 0) this.#pairs.push([`${k}`, `${v}`]);
    else this.#pairs = this.#pairs.filter((p, i) => i === at ? (p[1] = `${v}`, true) : p[0] !== `${k}`);
    this.#changed();
  }
  sort() { this.#pairs.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0); this.#changed(); }
  forEach(f) { for (const [k, v] of this.#pairs) f(v, k, this); }
  *entries() { for (const p of this.#pairs) yield [p[0], p[1]]; }
  *keys() { for (const p of this.#pairs) yield p[0]; }
  *values() { for (const p of this.#pairs) yield p[1]; }
  [Sym.iterator]() { return this.entries(); }
  toString() { return this.#pairs.map((p) => `${formEncode(p[0])}=${formEncode(p[1])}`).join('&'); }
}
hidden(globalThis, 'URLSearchParams', URLSearchParams);

const parseURL = (href, base) => { const json = host.url(`${href}`, base === undefined ? '' : `${base}`); return json === '' ? undefined : parse(json); };

class URL {
  #parts; #params;
  constructor(href, base) {
    this.#parts = parseURL(href, base);
    if (this.#parts === undefined) { const e = new TE(`Invalid URL: ${slice(text(href), 0, 200)}`); e.code = 'ERR_INVALID_URL'; throw e; }
  }
  static canParse(href, base) { return parseURL(href, base) !== undefined; }
  static parse(href, base) { return URL.canParse(href, base) ? new URL(href, base) : null; }
  #with(change) { const next = parseURL(compose({ ...this.#parts, ...change })); if (next !== undefined) this.#parts = next; }
  get href() { return this.#parts.href; }
  set href(v) { const next = parseURL(v); if (next === undefined) throw new TE('Invalid URL'); this.#parts = next; this.#params = undefined; }
  get origin() { return this.#parts.origin; }
  get protocol() { return this.#parts.protocol; }
  get username() { return this.#parts.username; }
  get password() { return this.#parts.password; }
  get hostname() { return this.#parts.hostname; }
  set hostname(v) { this.#with({ hostname: `${v}` }); }
  get port() { return this.#parts.port; }
  set port(v) { this.#with({ port: `${v}` }); }
  get host() { return this.#parts.port === '' ? this.#parts.hostname : `${this.#parts.hostname}:${this.#parts.port}`; }
  get pathname() { return this.#parts.pathname; }
  set pathname(v) { v = `${v}`; this.#with({ pathname: (v[0] === '/' ? v : '/' + v).replace(/[?#]/g, encodeURIComponent) }); }
  get search() { return this.#parts.search; }
  set search(v) { v = `${v}`; this.#with({ search: v === '' || v[0] === '?' ? v : '?' + v }); this.#params = undefined; }
  get hash() { return this.#parts.hash; }
  set hash(v) { v = `${v}`; this.#with({ hash: v === '' || v[0] === '#' ? v : '#' + v }); }
  get searchParams() {
    return this.#params ??= new URLSearchParams(this.#parts.search, () => { const s = this.#params.toString(); this.#with({ search: s === '' ? '' : '?' + s }); });
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
}
const compose = (p) => `${p.protocol}${p.slashes ? '//' : ''}${p.username === '' ? '' : p.username + (p.password === '' ? '' : ':' + p.password) + '@'}${p.hostname}${p.port === '' ? '' : ':' + p.port}${p.pathname}${p.search}${p.hash}`;
hidden(globalThis, 'URL', URL);
