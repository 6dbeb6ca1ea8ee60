// Package doctor judges facts: what is wrong with an installation, what that
// costs, and how to mend it. It looks at nothing itself, so that every
// judgement is a function that a table can test.
//
//	facts of this machine   package probe, run by the owner's program, daemon or not
//	facts of the daemon     Daemon, over the owner API
//	judgement               the functions here: facts → Check
//
// A check fails when something that is asked for does not work or is not safe.
// It warns when Sophia works and something is missing: the detail says what
// that costs.
//
// Imports: the standard library.
package doctor
