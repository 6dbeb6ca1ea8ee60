// The peer: isolated-vm in a spawned Node process, one isolate per run with the
// same heap, calls answered by the parent over lines of JSON.
'use strict';
const ivm = require('isolated-vm');
const readline = require('readline');
const waiting = new Map();
let sequence = 0;
const send = (m) => process.stdout.write(JSON.stringify(m) + '\n');

async function run(id, code) {
  const isolate = new ivm.Isolate({ memoryLimit: 8 });
  try {
    const context = await isolate.createContext();
    await context.global.set('__call', new ivm.Reference((tool, args) => new Promise((resolve) => {
      const call = ++sequence;
      waiting.set(call, resolve);
      send({ run: id, call, tool, args });
    })));
    const script = await isolate.compileScript(`
      const sophia = new Proxy({}, { get: (_, k) => (a) =>
        __call.apply(undefined, [k, JSON.stringify(a ?? {})], { result: { promise: true } }).then(JSON.parse) });
      (async () => { ${code} })().then((v) => JSON.stringify(v === undefined ? null : v))`);
    send({ run: id, value: await script.run(context, { promise: true, timeout: 10000 }) });
  } catch (e) {
    send({ run: id, error: String(e) });
  } finally {
    isolate.dispose();
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const m = JSON.parse(line);
  if (m.code !== undefined) run(m.run, m.code);
  else { waiting.get(m.call)(m.result); waiting.delete(m.call); }
});
send({ ready: true });
