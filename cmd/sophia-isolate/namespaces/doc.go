// Package namespaces puts the process into a user, network and IPC namespace of
// its own where the host allows that, as soon as it is imported: in a C
// constructor, because unshare(2) of a user namespace needs a process with one
// thread, and the Go runtime has several before any Go code runs.
//
// The daemon could ask clone(2) for them, but then Go starts the child with a
// plain fork instead of vfork: the daemon's page tables are copied, and each page
// that it writes next costs it a fault. A worker is started for every run.
//
// Whether it worked is for package lockdown to find.
package namespaces
