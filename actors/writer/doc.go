// Package writer is the one writer: an actor that commits in groups. While one
// commit is on its way to the disk, writes queue; then all that queued go in
// the next one. Each write of a group stands alone (see store.DB.WriteGroup).
//
//	Write ─ask→ mailbox ─┬─ idle: commit at once
//	                     └─ busy: queue ──commit done──→ all of the queue in one commit
//
// One waiting writer pays one sync; eight pay about one together.
//
// Fault row: killed at any point, a write that was not acknowledged is there
// entirely or not at all, and its caller gets an error at once.
//
// Imports: supervise, store.
package writer
