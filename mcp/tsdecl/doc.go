// Package tsdecl writes TypeScript declarations for methods that are described
// by JSON schemas.
//
//	declare namespace Sophia { interface … }   so that no name meets one of lib.dom
//	declare const sophia: Sophia.Methods
//
// Rules, each a mistake that generators make: unions and intersections are
// parenthesized as operands; a definition is one named interface, recursion
// stays typed; "*/" can't end a comment; odd names are quoted; const and enum
// are literal unions; optional is not nullable; defaults, formats and bounds are
// in the comments; an index signature is widened to what the properties need;
// every list is one shared Page<T>.
//
// Imports: jsonschema-go and the standard library.
package tsdecl
