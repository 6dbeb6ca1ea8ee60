package unit

import (
	"context"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"

	"sophia/messages/problem"
)

// DaemonSpec is the daemon as a transient unit.
type DaemonSpec struct {
	Program     string   // absolute path of sophiad
	Environment []string // NAME=value
}

// forgetWait bounds the wait for systemd to forget an earlier daemon: its
// agents may take their time to stop.
const (
	forgetWait = StopTimeout + 5*time.Second
	forgetPoll = 50 * time.Millisecond
)

// StartDaemon starts sophiad as DaemonUnit without a unit file, and returns when
// systemd has executed it. A failed unit of that name is forgotten first. The
// name is taken until the last agent of a daemon that was killed has stopped,
// because its unit is bound to that daemon's: StartDaemon waits for it.
func (m *Manager) StartDaemon(ctx context.Context, s DaemonSpec) error {
	bounded, cancel := context.WithTimeout(ctx, forgetWait)
	defer cancel()
	tick := time.NewTicker(forgetPoll)
	defer tick.Stop()
	for {
		err := m.startDaemon(ctx, s)
		if problem.CodeOf(err) != "unit_exists" {
			return err
		}
		select {
		case <-tick.C:
		case <-bounded.Done():
			return err
		}
	}
}

func (m *Manager) startDaemon(ctx context.Context, s DaemonSpec) error {
	conn, _, err := m.connection(ctx)
	if err != nil {
		return err
	}
	_ = conn.ResetFailedUnitContext(ctx, DaemonUnit) // there is none, mostly
	_, err = m.start(ctx, DaemonUnit, []sd.Property{
		prop("Description", "Sophia, the daemon between you and your agents"),
		prop("Type", "exec"),
		prop("Restart", "no"),
		prop("KillMode", "control-group"),
		prop("CollectMode", "inactive-or-failed"),
		prop("UMask", uint32(0o077)),
		prop("LimitCORE", uint64(0)),
		prop("LimitCORESoft", uint64(0)),
		prop("Environment", s.Environment),
		sd.PropExecStart([]string{s.Program}, false),
	})
	return err
}

// StartInstalled reads the unit files again and starts the named unit.
func (m *Manager) StartInstalled(ctx context.Context, name string) error {
	conn, calls, err := m.connection(ctx)
	if err != nil {
		return err
	}
	if err := conn.ReloadContext(ctx); err != nil {
		return problem.Wrap(err, "unit_start_failed", "systemd could not read its unit files again")
	}
	_ = conn.ResetFailedUnitContext(ctx, name)
	done := make(chan string, 1)
	if _, err := conn.StartUnitContext(ctx, name, "replace", done); err != nil {
		return problem.Wrap(err, "unit_start_failed", "systemd refused to start %s", name)
	}
	select {
	case result := <-done:
		if result != "done" {
			return problem.New("unit_start_failed", "%s did not start: the job ended with %q", name, result).
				WithHint("See: journalctl --user -u %s", name)
		}
		return nil
	case <-ctx.Done():
		return problem.Wrap(ctx.Err(), "unit_start_failed", "%s did not start in time", name)
	case <-calls.Context().Done():
		return problem.New("unit_start_failed", "The connection to systemd was lost while %s started", name)
	}
}

// StopNamed stops whatever activation of the named unit runs, and waits. One
// that does not run is a success.
func (m *Manager) StopNamed(ctx context.Context, name string) error {
	_, calls, err := m.connection(ctx)
	if err != nil {
		return err
	}
	st, err := inspect(ctx, calls, name)
	if err != nil || st.Over() {
		return err
	}
	ref, err := m.Reference(ctx, name)
	if problem.CodeOf(err) == "unit_missing" {
		return nil
	}
	if err != nil {
		return err
	}
	return m.Stop(ctx, ref)
}

// MainPID is the main process of the named unit, 0 when it runs none.
func (m *Manager) MainPID(ctx context.Context, name string) (int, error) {
	_, calls, err := m.connection(ctx)
	if err != nil {
		return 0, err
	}
	p, err := properties(ctx, calls, name)
	if problem.CodeOf(err) == "unit_missing" {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, _ := p["MainPID"].Value().(uint32)
	return int(pid), nil
}
