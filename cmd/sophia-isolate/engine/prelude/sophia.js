// sophia.*: a proxy over the methods that this run may call.
const methods = new M();
let names = [];
const pending = new M(); // id → [resolve, reject, tool]
let sequence = 0;

// Facts about errors that the bridge itself made. A snippet cannot forge them.
const facts = new WM();

class SophiaError extends E {
  constructor(problem, tool, origin) {
    const hint = typeof problem.hint === 'string' && problem.hint !== '' ? problem.hint : undefined;
    super(hint === undefined ? problem.message : `${problem.message}: ${hint}`);
    hidden(this, 'name', 'SophiaError');
    const from = origin.stack;
    hidden(this, 'stack', typeof from === 'string' ? `SophiaError: ${this.message}${slice(from, from.indexOf('\n'))}` : '');
    this.code = problem.code;
    this.tool = tool;
    if (hint !== undefined) this.hint = hint;
    if (problem.valid !== undefined) this.valid = problem.valid;
    const kind = problem.code === 'call_budget_exceeded' ? 'budget' : startsWith(text(problem.code), 'approval_') ? 'approval' : 'tool';
    weakSet(facts, this, { kind, message: text(problem.message), hint, limit: kind === 'budget' ? limits.budget : undefined });
  }
}

// A corrective error: what to write instead is in the message itself.
const corrective = (Type, message) => { const e = new Type(message); weakSet(facts, e, { kind: 'type' }); return e; };

// Legacy keys that the uniform envelope replaced, and what is read of an array
// by code that takes the envelope for one.
const legacy = ['hits', 'results', 'rows', 'records', 'matches', 'entries', 'list', 'data', 'count'];
const arrayLike = ['length', 'map', 'filter', 'forEach', 'slice', 'find', 'reduce', 'some', 'every', 'sort', 'flatMap', 'join'];
const envelope = create(O.prototype);
const correction = (key, message) => defineProperty(envelope, key, {
  __proto__: null, enumerable: false, configurable: true,
  get() { throw corrective(TE, message); },
  set(value) { defineProperty(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true }); },
});
for (let i = 0; i < legacy.length; i++) correction(legacy[i], `read '.items'/'.total' — '${legacy[i]}' was removed by the uniform result envelope`);
for (let i = 0; i < arrayLike.length; i++) correction(arrayLike[i], `read '.items.${arrayLike[i]}' — a list result is the envelope { items, total, cursor? }, not an array`);
correction(Sym.iterator, "iterate '.items' — a list result is the envelope { items, total, cursor? }, not an array");

const received = (json) => {
  const v = parse(json);
  if (v !== null && typeof v === 'object' && isArray(v.items) && typeof v.total === 'number') R.setPrototypeOf(v, envelope);
  return v;
};

// One error for all calls over the budget: there may be thousands.
let overBudget;
const exhausted = (tool) => {
  if (overBudget === undefined) {
    const origin = {};
    captureStackTrace(origin, exhausted);
    overBudget = new SophiaError({ code: 'call_budget_exceeded', message: `a run may make at most ${limits.calls} Sophia calls, and this is one more`, hint: 'Ask for more rows per call (limit), filter in the call, or split the work over several runs.' }, tool, origin);
  }
  return overBudget;
};

const call = (name, tool, args, count) => {
  if (count > 1 || args !== undefined && (args === null || typeof args !== 'object' || isArray(args))) {
    throw corrective(TE, `sophia.${name} takes one object of named arguments, as in sophia.${name}({ limit: 5 })`);
  }
  if (sequence >= limits.calls) return P.reject(exhausted(tool));
  const json = args === undefined ? '{}' : stringify(args, replace);
  if (json === undefined || json.length > limits.argumentBytes) {
    throw corrective(RE, `the arguments of sophia.${name} are larger than ${limits.argumentBytes} bytes`);
  }
  const id = ++sequence;
  const origin = {};
  captureStackTrace(origin, call); // a failed call points at where it was made
  return new P((resolve, reject) => {
    mapSet(pending, id, [resolve, reject, tool, origin]);
    host.call(id, tool, json);
  });
};

const unknown = (key) => {
  if (key === 'getSdkTypes' || key === 'get_sdk_types') return 'sophia.getSdkTypes is a direct MCP call for the host agent; inside the isolate the methods of sophia already are the typed surface it describes';
  if (key === 'executeCode' || key === 'execute_code') return 'sophia.executeCode cannot be called from inside a run: put the code into this one';
  const near = nearest(key, names);
  return near === undefined
    ? `sophia.${slice(key, 0, 80)} is not a method; Object.keys(sophia) lists the ${names.length} that this connection can call`
    : `sophia.${slice(key, 0, 80)} is not a method: did you mean sophia.${near}?`;
};

const readOnly = () => { throw corrective(TE, 'sophia is read-only'); };
const sophia = new Px(create(null), {
  __proto__: null,
  get(_, key) {
    if (typeof key === 'symbol') return undefined;
    const f = mapGet(methods, key);
    if (f !== undefined) return f;
    // Asked for by await, JSON.stringify and string conversion, not by the author.
    if (key === 'then' || key === 'toJSON' || key === 'toString' || key === 'valueOf' || key === 'constructor') return undefined;
    throw corrective(TE, unknown(key));
  },
  has: (_, key) => typeof key === 'string' && mapHas(methods, key),
  ownKeys: () => [...names],
  getOwnPropertyDescriptor: (_, key) => mapHas(methods, key) ? { value: mapGet(methods, key), enumerable: true, configurable: true, writable: false } : undefined,
  set: readOnly, defineProperty: readOnly, deleteProperty: readOnly, setPrototypeOf: readOnly,
});

// Other spellings that agents know from elsewhere.
const misspelt = (global) => new Px(freeze(create(null)), {
  __proto__: null,
  get(_, key) {
    if (typeof key === 'symbol') return undefined;
    const exact = mapHas(methods, key) ? key : nearest(key, names);
    throw corrective(TE, exact === undefined || key === 'sophia'
      ? `${global}.${slice(key, 0, 80)} does not exist: call Sophia's tools as sophia.<method>({ … })`
      : `${global}.${slice(key, 0, 80)} does not exist: write sophia.${exact}({ … })`);
  },
});
hidden(globalThis, 'tools', misspelt('tools'));
hidden(globalThis, 'functions', misspelt('functions'));
hidden(globalThis, 'mcp', misspelt('mcp'));
defineProperty(globalThis, 'sophia', { __proto__: null, value: sophia, writable: false, configurable: false, enumerable: true });

const offer = (json) => {
  const given = parse(json);
  names = [];
  for (let i = 0; i < given.length; i++) {
    const { Name, Tool } = given[i];
    push(names, Name);
    mapSet(methods, Name, { [Name](...args) { return call(Name, Tool, args[0], args.length); } }[Name]);
  }
};

const settle = (id, ok, json) => {
  const waiting = mapGet(pending, id);
  if (waiting === undefined) return;
  mapDelete(pending, id);
  if (ok) {
    let v;
    try { v = received(json); } catch (e) { waiting[1](e); return; }
    waiting[0](v);
  } else {
    waiting[1](new SophiaError(parse(json), waiting[2], waiting[3]));
  }
};
