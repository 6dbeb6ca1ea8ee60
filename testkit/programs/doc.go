// Package programs builds the project's own programs for tests that need the
// real thing as a child process. Each program is built at most once per test
// process, with the same cgo setting as in a release: sophia-isolate with,
// everything else without.
package programs
