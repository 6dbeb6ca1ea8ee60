// Package probe finds out the facts of this machine that package doctor judges.
// It looks and tries, and leaves everything as it was: what a try would change
// for good is asked of the kernel instead.
//
// Imports: hostd/doctor, harness, ownerkey, paths, unit, and the system call
// packages.
package probe
