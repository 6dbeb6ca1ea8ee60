// Package standby tells a process of the isolates that has just become ready whether
// somebody waits for it. One that was started to spare has time to warm up.
//
// Imports: the system calls.
package standby
