// Package judge decides which of a TypeScript compiler's complaints about a
// snippet are told to its author.
//
// The rule is one-sided: a complaint is kept only when the code can't be what was
// meant, because the run would throw, be refused, or read what is never there.
// Everything that JavaScript allows is let through: a variable that changes its
// type, an object that grows, a read that is guarded, an error that is caught.
// What a type can be trusted about is what Sophia itself declares, so a complaint
// about any other type is dropped.
//
//	kept                                   only where
//	no such property (2339, 2551)          on a declared type or a promise; not guarded, not written
//	no such name (2304, 2552)              never assigned, no typeof of it
//	wrong arguments (2345, 2769, 2554, …)  of a sophia.* call; kinds that can't meet
//	not iterable (2488), callable (2349)   a declared type or a promise
//	assigned constant, used too early      (2588, 2448)
//
// It works on tokens and not on a syntax tree; what it can't follow, it lets
// through.
//
// Imports: the standard library only.
package judge
