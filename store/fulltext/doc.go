// Package fulltext has the pure parts of search: posting blocks as bytes, and
// BM25 over decoded postings (k1 1.2, b 0.75; Robertson and Zaragoza 2009).
//
// A block holds up to 128 postings of one term in ordinal order. Its key names
// the first ordinal, so that the block of an ordinal is found by one seek.
//
// Imports: the standard library only.
package fulltext
