// Package tables declares the tables that exist and their row types, one file a
// domain. A table's number, and the order of its indexes, are on disk: they
// never change.
//
//	control.go    connections, approvals, workspaces, launch profiles, leases
//	documents.go  documents, chunks, evidence rejections
//	knowledge.go  facts, observations, goals, open questions, interrupts
//	posts.go      posts, read marks
//	wiki.go       wiki pages
//	code.go       modules, symbols, calls
//
// Imports: store, messages.
package tables

import "sophia/store"

// All is every table, for store.Options.
func All() []*store.Def {
	return []*store.Def{
		Connections.Def(), Approvals.Def(), Workspaces.Def(), Profiles.Def(), Leases.Def(),
		Documents.Def(), Chunks.Def(), Rejections.Def(),
		Facts.Def(), Observations.Def(), Goals.Def(), Questions.Def(), Interrupts.Def(),
		Posts.Def(), ReadMarks.Def(), Numbers.Def(), WikiPages.Def(),
		Modules.Def(), Symbols.Def(), Calls.Def(),
	}
}
