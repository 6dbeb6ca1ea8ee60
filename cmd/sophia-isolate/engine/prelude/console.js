// console: each line goes out at once, so that it survives whatever ends the
// run. Lines and bytes are capped here so that formatting stops too; the worker
// and the daemon count again.
let lines = 0, bytes = 0, capped = false;

// replace makes JSON of what JSON leaves out silently.
function replace(key, v) {
  if (typeof v === 'bigint') return text(v);
  if (v === null || typeof v !== 'object') return v;
  const proto = getPrototypeOf(v);
  if (proto === M.prototype) {
    const pairs = [...v];
    for (let i = 0; i < pairs.length; i++) if (typeof pairs[i][0] !== 'string') return pairs;
    return O.fromEntries(pairs);
  }
  if (proto === S.prototype) return [...v];
  if (v instanceof E && !hasOwn(v, 'toJSON')) {
    const out = { name: v.name, message: v.message };
    const own = keys(v);
    for (let i = 0; i < own.length; i++) out[own[i]] = v[own[i]];
    return out;
  }
  return v;
}

const show = (v) => {
  if (typeof v === 'string') return v;
  if (typeof v === 'function') return `[function ${text(v.name)}]`;
  if (v === null || typeof v !== 'object') return text(v);
  try {
    if (v instanceof E) { const s = v.stack; return typeof s === 'string' ? s : text(v); }
    const json = stringify(v, replace);
    return json === undefined ? text(v) : json;
  } catch (e) {
    return `[${text(v)}: ${text(e && e.message)}]`;
  }
};

const log = (prefix) => (...args) => {
  if (capped) return;
  if (lines >= limits.logLines || bytes >= limits.logBytes) {
    capped = true;
    host.log(`… further lines are dropped: at most ${limits.logLines} lines and ${limits.logBytes} bytes are kept`);
    return;
  }
  const shown = [];
  for (let i = 0; i < args.length && i < 32; i++) shown[i] = show(args[i]);
  let line = prefix + join(shown, ' ');
  if (line.length > limits.logLine) line = slice(line, 0, limits.logLine) + ` … (${line.length} characters)`;
  lines++;
  bytes += line.length;
  host.log(line);
};

const consoleObject = {
  log: log(''), info: log(''), debug: log('debug: '), warn: log('warn: '), error: log('error: '), trace: log('trace: '),
  dir: log(''), table: log(''), assert: (ok, ...args) => { if (!ok) log('assertion failed: ')(...args); },
  time() {}, timeEnd() {}, timeLog() {}, group: log(''), groupEnd() {}, count() {},
};
hidden(globalThis, 'console', consoleObject);
