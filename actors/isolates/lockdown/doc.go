// Package lockdown takes away from the process what running or compiling a
// snippet does not need, once it is up and before a snippet arrives. Every layer is applied, then
// tried, and reported as it was found to be.
//
//	layer          what it takes away                    kernel
//	no_new_privs   set-uid and file capabilities         any
//	dumpable       ptrace and /proc/self by the same uid any
//	descriptors    files that the daemon's parent left   any
//	limits         memory, processor time, files         any
//	mdwe           making writable memory executable     6.3
//	landlock       the file system, TCP, signals outward 5.13 and later versions
//	seccomp        every system call not on the list     any with filters
//	namespaces     given by the parent at the start      where allowed
//
// Imports: the system call packages, the wire.
package lockdown
