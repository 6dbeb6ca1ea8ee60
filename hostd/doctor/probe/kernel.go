package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"sophia/hostd/doctor"
)

const (
	soPassRights = 83 // SO_PASSRIGHTS, Linux 6.16

	// PIDFD_GET_INFO with a struct pidfd_info of 64 bytes (linux/pidfd.h, 6.13).
	pidfdGetInfo = 0xC000FF0B | 64<<16

	// prctl(2): asking is tried, because setting can't be undone.
	prGetMDWE = 66

	// landlock_create_ruleset(2): LANDLOCK_CREATE_RULESET_VERSION.
	landlockVersion = 1

	// seccomp(2): SECCOMP_GET_ACTION_AVAIL of SECCOMP_RET_ERRNO.
	seccompAvail = 2
	seccompErrno = 0x00050000
)

// Kernel tries what the kernel gives. folder is where read leases are tried.
func Kernel(folder string) doctor.Kernel {
	k := doctor.Kernel{Openat2: openat2(), PidfdInfo: pidfdInfo(), Seccomp: seccomp(), Landlock: landlock()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.Release = unix.ByteSliceToString(name.Release[:])
	}
	if pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		if fd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			k.PeerPidfd = true
			unix.Close(fd)
		}
		k.PassRights = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, soPassRights, 0) == nil
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
	_, err := unix.PrctlRetInt(prGetMDWE, 0, 0, 0, 0)
	k.MDWE = err == nil
	if err := readLease(folder); err != nil {
		k.LeaseProblem = err.Error()
	} else {
		k.ReadLeases = true
	}
	return k
}

func openat2() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func pidfdInfo() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var info [64]byte
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	return errno == 0
}

func seccomp() bool {
	action := uint32(seccompErrno)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompAvail, 0, uintptr(unsafe.Pointer(&action)))
	runtime.KeepAlive(&action)
	return errno == 0
}

func landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersion)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// readLease takes a read lease on a file of its own in folder, or in its
// nearest parent that exists.
func readLease(folder string) error {
	for folder != "/" {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			break
		}
		folder = filepath.Dir(folder)
	}
	made, err := os.CreateTemp(folder, ".sophia-doctor-")
	if err != nil {
		return err
	}
	defer os.Remove(made.Name())
	if err := made.Close(); err != nil {
		return err
	}
	f, err := os.Open(made.Name())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}
