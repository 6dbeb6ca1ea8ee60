// Package peer says who is on the other end of a unix socket or a loopback
// connection, in the kernel's words and not in the peer's.
//
//	what               from                                           without it
//	uid, pid           SO_PEERCRED                                    refused
//	pid not reused     SO_PEERPIDFD (6.5), found by trying            a held /proc/<pid>, see Of
//	which program      SHA-256 of /proc/<pid>/exe, held open          refused
//	which launch       /proc/<pid>/cgroup, PIDFD_GET_INFO (6.13)      the first alone
//	who sent a packet  SCM_CREDENTIALS                                refused
//	who serves a port  proc_net_tcp(5), once it has accepted          refused
//
// The program behind a connection is not yet the program that holds it: a thief
// connects, forks a child that keeps the socket, and executes the genuine
// program in the first process. Only an answer to a fresh nonce, attested by
// SCM_CREDENTIALS, shows that the checked process itself has the socket:
// package channel does that.
//
// Bounds: this tells processes of one user apart. It is no defence against
// who controls that user, and a process with CAP_SYS_ADMIN can name any pid in
// its credentials (unix(7)).
package peer
