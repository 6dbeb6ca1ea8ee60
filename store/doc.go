// Package store keeps Sophia's state: typed tables over an ordered engine, a
// journal, entity scope, and full-text search.
//
// A row, its index entries, its search postings, the row count and the journal
// entry are one commit, so that nothing ever has to be reconciled:
//
//	Write(ctx, Cause, func(*Tx) error)
//	  │  Table.Put / Delete     before and after, checked against the scope
//	  │    ├─ r <table> <key>               the row, JSON
//	  │    ├─ i <table> <index> <values> <key>   what it can be found by
//	  │    ├─ p <term> <table> <partition> <n>   128-document posting blocks
//	  │    └─ j <sequence>                  before, after, who, when, why, hash of the one before
//	  └─ one engine batch, on disk before Write returns
//
// Reads go through a Reader, which is a snapshot with a Scope: what is out of
// scope does not exist for it, in rows, totals, search statistics and journal.
//
//	engine/    the seam: ordered keys, snapshots, one atomic batch
//	analysis/  text → tokens
//	fulltext/  posting blocks and BM25
//	seal/      opaque cursors and identifiers
//	tables/    the tables that exist, and their row types
//	importdoc/ importcode/ wiki/ evidence/   what fills them
//
// Imports: messages and below. It knows nobody above it.
package store
