package unit

import (
	"context"
	"encoding/hex"
	"fmt"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"sophia/messages/problem"
)

// Gone is the active state of a unit that systemd doesn't know any more.
const Gone = "gone"

// State is what systemd says of a unit.
type State struct {
	InvocationID string // hex
	Active       string // activating, active, deactivating, inactive, failed, or Gone
	Sub          string // running, stop-sigterm, dead, …
	Result       string // success, exit-code, signal, timeout, …
	ExitCode     int    // of the host, when it exited
	Signal       int    // that killed the host, or 0
}

// Over is true when no process of the main command can run any more.
func (s State) Over() bool { return s.Active == Gone || s.Active == "inactive" || s.Active == "failed" }

func (s State) String() string {
	switch {
	case s.Active == Gone:
		return Gone
	case s.Signal != 0:
		return fmt.Sprintf("%s, %s, signal %d", s.Active, s.Result, s.Signal)
	case s.Over():
		return fmt.Sprintf("%s, %s, exit code %d", s.Active, s.Result, s.ExitCode)
	}
	return s.Active + ", " + s.Sub
}

// Inspect reads a unit's state. A unit that is not loaded is Gone, no error.
func (m *Manager) Inspect(ctx context.Context, name string) (s State, err error) {
	err = m.again(ctx, func(_ *sd.Conn, l *link) (err error) {
		s, err = inspect(ctx, l, name)
		return err
	})
	return s, err
}

func inspect(ctx context.Context, l *link, name string) (State, error) {
	p, err := properties(ctx, l, name)
	if problem.CodeOf(err) == "unit_missing" {
		return State{Active: Gone}, nil
	}
	if err != nil {
		return State{}, err
	}
	id, _ := p["InvocationID"].Value().([]byte)
	s := State{InvocationID: hex.EncodeToString(id), Active: p.str("ActiveState"), Sub: p.str("SubState"), Result: p.str("Result")}
	code, _ := p["ExecMainCode"].Value().(int32)
	status, _ := p["ExecMainStatus"].Value().(int32)
	switch code { // waitid(2): CLD_EXITED 1, CLD_KILLED 2, CLD_DUMPED 3
	case 1:
		s.ExitCode = int(status)
	case 2, 3:
		s.Signal = int(status)
	}
	return s, nil
}

type values map[string]dbus.Variant

func (v values) str(name string) string { return text(v[name]) }

func text(v dbus.Variant) string {
	s, _ := v.Value().(string)
	return s
}

// properties reads all of a loaded unit's properties, or unit_missing.
func properties(ctx context.Context, l *link, name string) (values, error) {
	var path dbus.ObjectPath
	err := l.systemd().CallWithContext(ctx, managerIf+".GetUnit", 0, name).Store(&path)
	if err == nil {
		var p values
		err = l.Object(busName, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, "").Store(&p)
		if err == nil && p.str("LoadState") != "not-found" {
			return p, nil
		}
		if err == nil {
			return nil, missing(nil, name)
		}
	}
	if isError(err, "org.freedesktop.systemd1.NoSuchUnit") || isError(err, "org.freedesktop.DBus.Error.UnknownObject") {
		return nil, missing(err, name)
	}
	return nil, problem.Wrap(err, "systemd_unavailable", "systemd did not answer about %s", name)
}

func missing(cause error, name string) error {
	return problem.Wrap(cause, "unit_missing", "There is no unit %s", name)
}

func objectPath(name string) dbus.ObjectPath {
	return busPath + "/unit/" + dbus.ObjectPath(sd.PathBusEscape(name))
}
