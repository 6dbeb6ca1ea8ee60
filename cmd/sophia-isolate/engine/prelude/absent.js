// What is not given, with what to use instead. Functions throw when called and
// objects when read, so that `typeof` on them stays harmless.
const instead = {
  fetch: 'fetch is not available: there is no network inside. Read through sophia.*, or pass the data in as `input`.',
  require: 'require is not available: there are no modules inside. sophia, input and console are already there.',
  process: 'process is not available: there is no operating system inside. Pass what you need as `input`.',
  fs: 'fs is not available: there are no files inside. Read documents through sophia.* and return what you want to keep.',
};
hidden(globalThis, 'fetch', function fetch() { throw corrective(RefE, instead.fetch); });
hidden(globalThis, 'require', function require() { throw corrective(RefE, instead.require); });
const absent = (name) => hidden(globalThis, name, new Px(freeze(create(null)), {
  __proto__: null,
  get(_, key) { if (typeof key === 'symbol') return undefined; throw corrective(RefE, instead[name]); },
}));
absent('process');
absent('fs');

// Names that are left undefined; the hint comes with the ReferenceError.
const unavailable = {
  __proto__: null,
  XMLHttpRequest: instead.fetch, WebSocket: instead.fetch, axios: instead.fetch,
  module: instead.require, exports: instead.require, Deno: instead.process, Bun: instead.process, window: instead.process, document: instead.process,
  Buffer: 'Buffer is not available: use TextEncoder, TextDecoder, atob and btoa.',
  setInterval: 'setInterval is not available: loop with `await new Promise(r => setTimeout(r, ms))`.',
  setImmediate: 'setImmediate is not available: use `await null` or setTimeout.',
};
for (const name of ['SharedArrayBuffer', 'Atomics', 'WebAssembly', 'gc']) delete globalThis[name];
