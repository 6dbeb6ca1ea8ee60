package isolates

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
)

// Command returns a Spawn that starts the program at path with nothing of this
// process: no environment, no descriptors, no working directory.
func Command(path string) Spawn {
	return func(context.Context) (Proc, error) { return start(path, false) }
}

// Apart is Command with a user, network and IPC namespace of its own where the
// host allows that. It costs this process a copy of its page tables: programs
// that are started often do it themselves, as sophia-isolate does.
func Apart(path string) Spawn {
	var refused atomic.Bool // the host allows no namespaces: don't try each time
	return func(context.Context) (Proc, error) {
		if !refused.Load() {
			p, err := start(path, true)
			if err == nil || shortage(err) {
				return p, err
			}
			if p, err = start(path, false); err == nil {
				refused.Store(true)
			}
			return p, err
		}
		return start(path, false)
	}
}

// shortage says that a start failed for want of what there will be again. It
// must not cost the processes to come their namespaces.
func shortage(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// environment is all that a worker gets: one processor, since a second would be
// woken for each frame to look for work that there is not; the runtime need not
// look for a control group's limit and keep its files open; and in so short a life
// Go's own garbage is collected only when there is much of it.
var environment = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOGC=off", "GOMEMLIMIT=32MiB", "GOTRACEBACK=none"}

// maxStderr is how much of a worker's stderr is kept, in bytes. Only the last
// words matter.
const maxStderr = 4 << 10

type child struct {
	*os.File // our end of its output
	in       *os.File
	cmd      *exec.Cmd
	stderr   tail
	once     sync.Once
	exit     Exit
}

func start(path string, namespaces bool) (*child, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirOut.Close()
	c := &child{File: out, in: in}
	c.cmd = &exec.Cmd{
		Path: path, Args: []string{filepath.Base(path)}, Env: environment, Dir: "/",
		Stdin: theirIn, Stdout: theirOut, Stderr: &c.stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a Ctrl-C meant for the daemon is not for its workers
	}
	if namespaces {
		c.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
		c.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		c.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	if err := c.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	return c, nil
}

func (c *child) Write(b []byte) (int, error) { return c.in.Write(b) }

// TryWrite is one attempt to write without waiting.
func (c *child) TryWrite(b []byte) (n int, err error) {
	raw, err := c.in.SyscallConn()
	if err != nil {
		return 0, err
	}
	werr := raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true
	})
	switch {
	case werr != nil:
		return 0, werr
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return n, nil
}

func (c *child) Kill() { _ = c.cmd.Process.Kill() } // an error means that it has ended

// Wait closes both pipes. The worker exits when its input closes.
func (c *child) Wait() Exit {
	c.once.Do(func() {
		c.in.Close()
		_ = c.cmd.Wait() // how it ended is in ProcessState
		c.File.Close()
		c.exit.Stderr = c.stderr.String()
		if s := c.cmd.ProcessState; s != nil {
			c.exit.CPU = s.UserTime() + s.SystemTime()
			c.exit.Code = s.ExitCode()
			if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
				c.exit.Signal = w.Signal().String()
			}
		}
	})
	return c.exit
}

// tail keeps the last bytes that were written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - maxStderr; over > 0 {
		// The first line names the cause and the last ones the place.
		t.b = append(t.b[:maxStderr/2], t.b[maxStderr/2+over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.b, []byte("?")))
}
