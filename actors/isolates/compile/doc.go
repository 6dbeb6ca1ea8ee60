// Package compile turns what an agent wrote for execute_code into JavaScript
// that V8 runs.
//
//	as written                           what runs
//	```ts … ```                          the code between the fences
//	const n: number = 1                  const n = 1
//	top-level await, return              inside an async function
//	a final expression                   return <expression>
//	async () => { … } and nothing else   called, not returned
//
// Types are stripped by esbuild's Go API. It runs in a process of its own
// (sophia-compile), never in the daemon: a snippet of 100,000 opening brackets
// can exhaust a parser's stack, and a Go stack overflow ends the process. Nor
// does it run in the worker, where every run would pay for its start.
//
// Imports: esbuild, messages, script, the wire, wrap.
package compile
