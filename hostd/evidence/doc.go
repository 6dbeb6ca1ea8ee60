// Package evidence shows that a launch left the owner's real configuration
// alone: every source that the harness could have read is hashed before it
// starts and after it has ended, and the two must match.
//
// It proves nothing about what the harness did elsewhere, nor about changes
// that were undone in between.
//
// Imports: messages.
package evidence
