// Package custody takes a renewed credential from a launch's overlay back to
// the owner's real file. With an expired token a harness redeems the refresh
// token, which works once, and keeps the new one only in its overlay: deleting
// the overlay would log the owner out.
//
//	decide.go   the rule, without files
//	keeper.go   the files: read, replace atomically, keep both on a conflict
//	written.go  what was written back, for the evidence of launches that ran meanwhile
//
// Who may have a credential when is actors/custody's.
//
// Imports: messages, hostd/harness/contracts, hostd/paths.
package custody
