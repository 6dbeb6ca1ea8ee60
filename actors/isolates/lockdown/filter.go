package lockdown

import (
	"syscall"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// allowed is what the Go runtime, malloc and V8 call once everything is up.
// Descriptors that are open can be read, written and closed; none can be made
// but the runtime's own event and pipe ones.
var allowed = []string{
	"read", "write", "writev", "close", "ppoll",
	"futex", "nanosleep", "clock_nanosleep", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
	"getpid", "gettid", "getrusage", "clock_gettime", "clock_getres", "gettimeofday", "getrandom",
	"madvise", "munmap", "mremap", "brk", "membarrier", "rseq", "set_robust_list",
	"rt_sigreturn", "rt_sigprocmask", "rt_sigaction", "sigaltstack", "restart_syscall",
	"timer_create", "timer_settime", "timer_delete",
	"epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "eventfd2", "pipe2",
	"exit", "exit_group",
}

// filter installs the list on every thread. What is not on it fails with EPERM,
// so that a library that tries something optional goes on.
func filter() (string, error) {
	never := func(name string, argument uint32, bits uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: []seccomp.Condition{{Argument: argument, Operation: seccomp.BitsNotSet, Value: bits}}}
	}
	always := func(name string, argument uint32, bits uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: []seccomp.Condition{{Argument: argument, Operation: seccomp.BitsSet, Value: bits}}}
	}
	self := func(name string) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: uint64(unix.Getpid())}}}
	}
	program := seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				{Action: seccomp.ActionAllow, Names: supported(allowed)},
				{Action: seccomp.ActionAllow, NamesWithCondtions: []seccomp.NameWithConditions{
					never("mmap", 2, unix.PROT_EXEC),
					never("mprotect", 2, unix.PROT_EXEC),
					always("clone", 0, unix.CLONE_THREAD),
					self("tgkill"), // the runtime preempts its own threads by signal
				}},
				// Its flags are behind a pointer; with ENOSYS glibc falls back to clone.
				{Action: seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS), Names: []string{"clone3"}},
			},
		},
	}
	if err := seccomp.LoadFilter(program); err != nil {
		return "", err
	}
	return "", denied()
}

// denied tries what must fail now.
func denied() error {
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		unix.Close(fd)
		return errNotInForce
	}
	if fd, err := unix.Open("/", unix.O_RDONLY, 0); err == nil {
		unix.Close(fd)
		return errNotInForce
	}
	if err := unix.Kill(unix.Getppid(), 0); err == nil {
		return errNotInForce
	}
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(page)
	if _, _, e := unix.Syscall(unix.SYS_MPROTECT, uintptr(unsafe.Pointer(&page[0])), uintptr(len(page)), unix.PROT_READ|unix.PROT_EXEC); e == 0 {
		return errNotInForce
	}
	return nil
}
