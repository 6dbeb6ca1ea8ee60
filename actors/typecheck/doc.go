// Package typecheck checks the types of a snippet before it runs, with the
// TypeScript compiler as a child process that is kept warm.
//
//	tsgo --lsp --stdio        one project: globals.d.ts, sdk.d.ts, snippet.ts
//	  didChange sdk.d.ts      when another surface is checked against
//	  didChange snippet.ts    the snippet, wrapped as it runs
//	  diagnostic snippet.ts   → judge → findings
//
// A check takes about 3 ms. It must never stand in the way: what it can't decide
// in time, or can't decide at all, passes (package judge), and where there is no
// compiler every snippet runs and the result says so. The child is started again
// when it ends, later and later when it keeps ending; it sees no environment,
// and a snippet that names a file (import, require) is not given to it.
//
// Imports: supervise, messages, isolates/wrap, and the packages below.
package typecheck
