// Package custody has one actor per real credential file: the custodian. It
// lends the credential to launches and takes it back.
//
//	Take(launch)     may wait: while the credential is expired only one launch
//	                 has it, because the refresh token inside works once
//	Copied(note)     where the launch's copy is, and what was copied
//	Return(launch)   at the launch's end: writes a renewed one back, or says
//	                 why not, and lets the next launch go
//
// While somebody waits, the custodian looks at the copies of those that have
// it: a renewed one is written back at once, and the wait is over.
//
// What is done to files is behind Keeper (hostd/custody). A custodian does one
// thing at a time with its file, so a renewed credential is written back
// exactly once. It ends when nobody has the credential.
//
// What a custodian knows outlives its crashes. After a restart of the daemon
// Resume tells it again which launches have a copy.
//
// Imports: messages, actors/supervise.
package custody
