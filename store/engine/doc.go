// Package engine is the seam under the store: ordered keys, reads on a
// snapshot, and one atomic, durable batch. Nothing more is asked of it, so that
// a distributed ordered store can stand in for the embedded one.
//
//	Engine.Snapshot() → Get, Scan
//	Engine.Apply(batch)   all or nothing, on disk when it returns
//
// Badger is the embedded default.
//
// Imports: badger, messages/problem.
package engine
