package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// Address is where a daemon listens: the content of address.json, which it
// writes when it is ready.
type Address struct {
	MCP     string    `json:"mcp"`    // URL
	Portal  string    `json:"portal"` // URL
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// ReadAddress reads address.json: daemon_unreachable when there is none.
func ReadAddress(path string) (Address, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Address{}, problem.Wrap(err, "daemon_unreachable", "no daemon has said where it listens").WithHint("Start it with: sophia up")
	}
	if err != nil {
		return Address{}, problem.Wrap(err, "address_not_read", "%s can't be read", path)
	}
	var a Address
	if err := json.Unmarshal(text, &a); err != nil || a.PID <= 1 {
		return Address{}, problem.New("address_not_read", "%s is no address of a daemon", path).WithHint("Remove it and run: sophia up")
	}
	return a, nil
}

// WriteAddress replaces address.json in one step, mode 0600.
func WriteAddress(path string, a Address) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".address-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(append(text, '\n')); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Process is a living sophiad, held so that its number can't come to mean
// another process.
type Process struct {
	PID   int
	pidfd int
}

// Find returns the process with this number if it lives and its executable is
// called name, else nil.
func Find(pid int, name string) *Process {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	// " (deleted)": rebuilt since it was started.
	if base := filepath.Base(exe); err != nil || base != name && base != name+" (deleted)" || !alive(fd) {
		unix.Close(fd)
		return nil
	}
	return &Process{PID: pid, pidfd: fd}
}

func alive(pidfd int) bool { return unix.PidfdSendSignal(pidfd, 0, nil, 0) == nil }

// Signal sends a signal; a process that has ended is no error.
func (p *Process) Signal(s unix.Signal) error {
	if err := unix.PidfdSendSignal(p.pidfd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Wait reports whether the process ended within d.
func (p *Process) Wait(d time.Duration) bool {
	until := time.Now().Add(d)
	for {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(until), 0)/time.Millisecond))
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) || !time.Now().Before(until) {
			return false
		}
	}
}

// Close lets go of the process.
func (p *Process) Close() { unix.Close(p.pidfd) }
