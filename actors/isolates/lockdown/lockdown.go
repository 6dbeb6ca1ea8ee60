package lockdown

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"sophia/actors/isolates/wire"
)

// CPU is how much processor time the process may use in seconds: more than any
// run may take.
const CPU = 32

// Apply locks the process down and returns the layers in the order applied. It
// goes on where a layer is missing: whether that is good enough is the daemon's
// decision.
func Apply() []wire.Layer {
	steps := []struct {
		name string
		do   func() (detail string, err error)
	}{
		{"namespaces", namespaces},
		{"descriptors", closeInherited},
		{"no_new_privs", noNewPrivs},
		{"dumpable", notDumpable},
		{"limits", limits},
		{"mdwe", mdwe},
		{"landlock", restrictFiles},
		{"seccomp", filter},
	}
	layers := make([]wire.Layer, 0, len(steps))
	for _, s := range steps {
		detail, err := s.do()
		if err != nil {
			detail = err.Error()
		}
		layers = append(layers, wire.Layer{Name: s.name, On: err == nil, Detail: detail})
	}
	return layers
}

// errNotInForce is for a layer that was applied and then let the probe through.
var errNotInForce = errors.New("applied, and not in force")

// closeInherited closes what whoever started the daemon left open: what was
// opened in this process closes on exec, and what came through exec does not.
func closeInherited() (string, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			if err := unix.Close(fd); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

func noNewPrivs() (string, error) {
	// For this thread; seccomp and Landlock set it on the others.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "", err
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v != 1 {
		return "", errNotInForce
	}
	return "", nil
}

func notDumpable() (string, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return "", err
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || v != 0 {
		return "", errNotInForce
	}
	return "", nil
}

func limits() (string, error) {
	data, err := dataSize()
	if err != nil {
		return "", err
	}
	for resource, value := range map[int]uint64{
		unix.RLIMIT_DATA:     data + wire.Memory,
		unix.RLIMIT_CORE:     0,
		unix.RLIMIT_FSIZE:    0,
		unix.RLIMIT_MEMLOCK:  0,
		unix.RLIMIT_MSGQUEUE: 0,
		// Behind the daemon's clock, which stands still while the owner is asked.
		unix.RLIMIT_CPU: CPU,
	} {
		want := unix.Rlimit{Cur: value, Max: value}
		if err := unix.Setrlimit(resource, &want); err != nil {
			return "", err
		}
		var got unix.Rlimit
		if err := unix.Getrlimit(resource, &got); err != nil || got != want {
			return "", errNotInForce
		}
	}
	return fmt.Sprintf("%d MB of data", (data+wire.Memory)>>20), nil
}

// dataSize is what RLIMIT_DATA counts, in bytes.
func dataSize() (uint64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmData:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmData")
}

// Memory-deny-write-execute, prctl(2), Linux 6.3.
const (
	prSetMDWE          = 65
	prGetMDWE          = 66
	mdweRefuseExecGain = 1
)

func mdwe() (string, error) {
	if err := unix.Prctl(prSetMDWE, mdweRefuseExecGain, 0, 0, 0); err != nil {
		return "", err
	}
	if v, err := unix.PrctlRetInt(prGetMDWE, 0, 0, 0, 0); err != nil || v&mdweRefuseExecGain == 0 {
		return "", errNotInForce
	}
	return "", nil
}

func restrictFiles() (string, error) {
	version, err := llsys.LandlockGetABIVersion()
	if err != nil {
		return "", err
	}
	if err := landlock.V6.BestEffort().Restrict(); err != nil {
		return "", err
	}
	if fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(fd)
		return "", errNotInForce
	}
	return fmt.Sprintf("version %d", version), nil
}

// namespaces reports what the parent gave: in a user namespace of its own the
// process has a one-line uid map of length 1.
func namespaces() (string, error) {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return "", err
	}
	if fields := strings.Fields(string(b)); len(fields) != 3 || fields[2] != "1" {
		return "", errors.New("no user and network namespace of its own")
	}
	return "", nil
}
