// Package ownertext is how the owner's programs show things: text of others made
// safe for a terminal, rows and their differences, errors and exit codes.
//
// Imports: hostd/ownerapi (for the status of refusals), messages.
package ownertext
