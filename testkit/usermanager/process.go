package usermanager

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a child that is always waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func start(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// inGroup is a command that joins the manager's control group in every
// hierarchy before it becomes the program.
func (m *Manager) inGroup(name string, arg ...string) *exec.Cmd {
	files := m.groups.procs()
	args := append([]string{"-c", `n=$1; shift; while [ $n -gt 0 ]; do echo $$ >"$1" || exit 1; shift; n=$((n-1)); done; exec "$@"`,
		"sh", itoa(len(files))}, files...)
	cmd := exec.Command("/bin/sh", append(append(args, name), arg...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// teardown kills what is in the group, removes the group in every hierarchy
// and then the runtime folder. $1 is the runtime folder, the rest are groups,
// the one of the v2 tree first.
const teardown = `
read -r _
dir=$1; shift
n=0
while [ $n -lt 200 ] && grep -qs 'populated 1' "$1/cgroup.events"; do
  echo 1 2>/dev/null >"$1/cgroup.kill" || find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null | xargs -r kill -9 2>/dev/null
  n=$((n+1)); sleep 0.05
done
for g; do find "$g" -depth -type d -exec rmdir {} + 2>/dev/null; done
left=0
for g; do [ -e "$g" ] && { echo "control group left: $g" >&2; left=1; }; done
rm -rf "$dir" || left=1
exit $left
`

func (m *Manager) startGuard() error {
	m.guard = exec.Command("/bin/sh", append([]string{"-c", teardown, "guard", m.RuntimeDir}, m.groups.all()...)...)
	m.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	m.guard.Stderr = os.Stderr
	stdin, err := m.guard.StdinPipe()
	if err != nil {
		return err
	}
	m.release = stdin
	return m.guard.Start()
}

// Stop ends the manager and all it runs: first by its own shutdown, then by
// killing its control group. It returns an error if something is left.
func (m *Manager) Stop() error {
	m.stop.Do(func() {
		if m.systemd != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			m.systemd.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-m.systemd.done:
			case <-ctx.Done():
			}
		}
		m.release.Close()
		m.stopErr = m.guard.Wait()
		if m.systemd != nil {
			<-m.systemd.done
		}
	})
	return m.stopErr
}
