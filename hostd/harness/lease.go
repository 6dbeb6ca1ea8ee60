package harness

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errWriter: somebody has the file open for writing.
var errWriter = errors.New("the file is open for writing")

// takeLease takes a read lease on an open file (fcntl(2), Leases). It fails
// with errWriter while anybody has the file open for writing; later, an open
// for writing or a truncation breaks it, which leaseHeld sees. The break
// sends the process SIGIO, which the Go runtime ignores unless it is asked for,
// and the writer waits until the file is closed here, or for lease-break-time
// (proc_sys_fs(5)).
//
// Other errors say that there are no leases here: EINVAL on file systems
// without them, EACCES for a file of somebody else's.
func takeLease(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return errWriter
	}
	return err
}

// leaseHeld tells whether the lease is unbroken. While a break is under way
// the kernel names the type it is to become, which is none.
func leaseHeld(f *os.File) bool {
	kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && kind == unix.F_RDLCK
}
