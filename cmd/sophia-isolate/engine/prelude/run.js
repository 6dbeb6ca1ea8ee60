// The run itself: start it, and hand out what it returned or threw, once.
let over = false;
const finish = (ok, a, b) => { if (!over) { over = true; host.end(ok, a, b); } };

const shape = (v, depth) => {
  if (v === null || typeof v !== 'object') return typeof v === 'string' ? `string of ${v.length}` : typeof v;
  if (isArray(v)) return v.length === 0 ? 'empty array' : `array of ${v.length}` + (depth > 0 ? ` × ${shape(v[0], depth - 1)}` : '');
  const own = keys(v), shown = [];
  for (let i = 0; i < own.length && i < 12; i++) shown[i] = `${slice(own[i], 0, 40)}: ${depth > 0 ? shape(v[own[i]], depth - 1) : typeof v[own[i]]}`;
  return `{ ${join(shown, ', ')}${own.length > 12 ? `, … ${own.length - 12} more` : ''} }`;
};

const succeed = (v) => {
  let json;
  try {
    json = stringify(v, replace);
  } catch (e) {
    const message = e instanceof TE ? text(e.message) : '';
    if (startsWith(message, 'Converting circular structure')) {
      finish(false, stringify({ kind: 'runtime', name: 'ResultError', message: 'the returned value refers to itself, so it is not JSON', hint: 'Return a copy with only the fields you need.' }), '');
    } else {
      fail(e);
    }
    return;
  }
  if (json === undefined) { // undefined, or a function or symbol, which JSON leaves out
    if (v === undefined) finish(true, '', '');
    else finish(false, stringify({ kind: 'runtime', name: 'ResultError', message: `the returned value is a ${typeof v}, which is not JSON`, hint: typeof v === 'function' ? 'Call it, and return what it returns.' : 'Return a string.' }), '');
    return;
  }
  if (json.length > limits.valueBytes) {
    let of;
    try { of = shape(parse(json), 2); } catch { of = 'unknown'; }
    finish(false, stringify({ kind: 'runtime', name: 'ResultTooLarge', message: `the returned value is ${json.length} bytes: ${slice(of, 0, 400)}`, limit: `${limits.valueBytes} bytes`, hint: 'Return only the fields and rows you need: .items.slice(0, 20).map(({ id, title }) => ({ id, title })), or counts.' }), '');
    return;
  }
  finish(true, json, '');
};

const describe = (e) => {
  const known = e !== null && typeof e === 'object' && weakHas(facts, e) ? weakGet(facts, e) : undefined;
  const isError = e instanceof E;
  let name = '', message = '', code;
  try { name = isError ? text(e.name) : typeof e; } catch { name = 'Error'; }
  try { message = known !== undefined && known.message !== undefined ? known.message : isError ? text(e.message) : show(e); } catch { message = '[unprintable]'; }
  let kind = known === undefined ? 'runtime' : known.kind, hint = known === undefined ? undefined : known.hint, limit = known === undefined ? undefined : known.limit;
  if (known === undefined && isError) {
    if (name === 'ReferenceError') {
      const m = R.apply(Str.prototype.match, message, [/^(\S+) is not defined$/]);
      if (m !== null) hint = unavailable[m[1]] ?? (mapHas(methods, m[1]) ? `Did you mean sophia.${m[1]}?` : undefined);
    } else if (name === 'RangeError' && (startsWith(message, 'Array buffer allocation failed') || startsWith(message, 'Invalid array buffer length'))) {
      kind = 'memory'; limit = limits.memory; hint = limits.memoryHint;
    } else if (name === 'RangeError' && startsWith(message, 'Maximum call stack size')) {
      hint = 'The recursion is too deep: use a loop.';
    } else if (name === 'EvalError' && startsWith(message, 'Code generation from strings')) {
      hint = 'eval and new Function are switched off: write the code directly.';
    }
  }
  return { kind, name: slice(name, 0, 100), message: slice(message, 0, 4000), hint, limit };
};

const fail = (e) => {
  let json, stack = '';
  try { json = stringify(describe(e)); } catch { json = '{"kind":"runtime","name":"Error","message":"[unprintable]"}'; }
  try { stack = e instanceof E ? slice(text(e.stack), 0, 8000) : ''; } catch { stack = ''; }
  finish(false, json, stack);
};

const start = (program, sole, input) => {
  hidden(globalThis, 'input', input === '' ? undefined : parse(input));
  const f = program;
  const outcome = (async () => {
    let v = await R.apply(f, undefined, []);
    if (sole && typeof v === 'function') v = await R.apply(v, undefined, [sophia, globalThis.input]);
    return v;
  })();
  then(outcome, succeed, fail);
};
