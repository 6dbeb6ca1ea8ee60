package host

import (
	"context"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"syscall"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// agent is the actor that owns the harness's process. It is Temporary: a
// second life would be a second agent.
type agent struct {
	m       messages.Manifest
	v       *verified
	slave   *os.File
	started func(pid int)
	ended   func(*os.ProcessState, error)
}

type processEnded struct {
	state *os.ProcessState
	err   error
}

func (a *agent) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case actor.Started:
		cmd, err := a.start()
		if err != nil {
			a.ended(nil, err)
			supervise.Exit(c, nil)
			return
		}
		a.started(cmd.Process.Pid)
		supervise.Go(c, func(ctx context.Context) any {
			// When the tree is stopped for another reason, the agent goes with it.
			stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
			defer stop()
			err := cmd.Wait()
			if cmd.ProcessState != nil {
				err = nil
			}
			return processEnded{cmd.ProcessState, err}
		})
	case processEnded:
		a.ended(m.state, m.err)
		supervise.Exit(c, nil)
	}
}

// start runs the held bytes, not the path: "/proc/self/fd/N" is resolved by the
// child, which has the descriptor until exec closes it.
func (a *agent) start() (*exec.Cmd, error) {
	defer a.v.close()
	defer a.slave.Close()
	failed := func(err error) (*exec.Cmd, error) {
		return nil, problem.Wrap(err, "harness_not_started", "%s can't be started", a.m.Harness.Path)
	}
	program, err := a.v.harness.DupAbove(64)
	if err != nil {
		return failed(err)
	}
	defer program.Close()
	if err := a.v.harness.Recheck(); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/fd/" + strconv.Itoa(int(program.Fd())),
		Args: a.m.Argv,
		Env:  environment(a.m.Environment),
		// By its descriptor too: the folder that was verified.
		Dir:         "/proc/self/fd/" + strconv.Itoa(int(a.v.workspace.Fd())),
		Stdin:       a.slave,
		Stdout:      a.slave,
		Stderr:      a.slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	// Whatever this process was started with must not reach the harness: it gets
	// the PTY and nothing else. Our own descriptors have the flag already.
	if err := unix.CloseRange(3, ^uint(0)>>33, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return failed(err)
	}
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	return cmd, nil
}

func environment(vars map[string]string) []string {
	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env
}
