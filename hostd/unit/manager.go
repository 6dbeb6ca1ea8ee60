package unit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"sophia/messages"
	"sophia/messages/problem"
)

// Manager is the way to the user's systemd manager. It connects when it is
// first used and again when the connection was lost. It is safe for use by
// several goroutines; every method blocks and takes a context.
type Manager struct {
	getenv func(string) string

	mu    sync.Mutex
	conn  *sd.Conn
	calls *link // the connection below conn that calls are made on
}

// New returns a manager for the environment that getenv (os.Getenv) reads.
// Nothing is connected yet.
func New(getenv func(string) string) *Manager { return &Manager{getenv: getenv} }

// Ping returns nil when systemd answers, else systemd_unavailable.
func (m *Manager) Ping(ctx context.Context) error {
	return m.again(ctx, func(_ *sd.Conn, l *link) error {
		_, err := l.systemd().GetProperty(managerIf + ".Version")
		if err != nil {
			return problem.Wrap(err, "systemd_unavailable", "systemd does not answer")
		}
		return nil
	})
}

// Close drops the connection. Units are not affected.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.conn.Close()
		m.conn, m.calls = nil, nil
	}
}

func (m *Manager) connection(ctx context.Context) (*sd.Conn, *link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && m.conn.Connected() {
		return m.conn, m.calls, nil
	}
	if m.conn != nil {
		m.conn.Close()
		m.conn, m.calls = nil, nil
	}
	var links []*link
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) {
		l, err := dial(ctx, m.getenv)
		if err != nil {
			return nil, err
		}
		links = append(links, l)
		return l.Conn, nil
	})
	if err != nil {
		return nil, nil, err
	}
	m.conn, m.calls = conn, links[0]
	return m.conn, m.calls, nil
}

// again runs a call that may be repeated, and runs it once more over a new
// connection when the old one turns out to be dead: systemd that executed
// itself anew, or a bus that was restarted, is only noticed by using it.
func (m *Manager) again(ctx context.Context, call func(*sd.Conn, *link) error) error {
	for try := 0; ; try++ {
		conn, l, err := m.connection(ctx)
		if err != nil {
			return err
		}
		err = call(conn, l)
		_, replied := errors.AsType[dbus.Error](err)
		if err == nil || replied || try > 0 || ctx.Err() != nil || l.Connected() && problem.CodeOf(err) != "systemd_unavailable" {
			return err
		}
		m.mu.Lock()
		if m.conn == conn {
			conn.Close()
			m.conn, m.calls = nil, nil
		}
		m.mu.Unlock()
	}
}

// Start starts the unit and returns when systemd has executed the host (that
// is what Type=exec means), or why it could not. The reference that it returns
// is validated. Errors: systemd_unavailable, unit_exists, unit_start_failed,
// unit_not_validated, control_group_unreadable.
//
// A unit that has already ended is still found by Watch and Inspect until
// Release is called, where systemd is reached over the session bus.
func (m *Manager) Start(ctx context.Context, s Spec) (messages.UnitRef, error) {
	props, err := s.Properties()
	if err != nil {
		return messages.UnitRef{}, err
	}
	if _, err := unifiedMount(); err != nil { // its end could not be proven
		return messages.UnitRef{}, problem.Wrap(err, "control_group_unreadable", "the cgroup2 tree was not found").
			WithHint("As root: mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	if err := m.Ping(ctx); err != nil { // a start is not repeated over a new connection
		return messages.UnitRef{}, err
	}
	return m.start(ctx, Name(s.Launch), props)
}

func (m *Manager) start(ctx context.Context, name string, props []sd.Property) (messages.UnitRef, error) {
	var none messages.UnitRef
	conn, calls, err := m.connection(ctx)
	if err != nil {
		return none, err
	}
	if calls.bus {
		props = append(props, prop("AddRef", true))
	}
	done := make(chan string, 1)
	// Once asked, systemd is heard: who gives up in between would not know
	// whether the unit is still to come.
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyBound)
	defer cancel()
	if _, err := conn.StartTransientUnitContext(asked, name, "fail", props, done); err != nil {
		if isError(err, "org.freedesktop.systemd1.UnitExists") {
			return none, problem.Wrap(err, "unit_exists", "There is already a unit %s", name)
		}
		return none, problem.Wrap(err, "unit_start_failed", "systemd refused to start %s", name)
	}
	result, err := outcome(ctx, calls, name, done, func(st State) bool { return st.Active == "active" })
	switch {
	case ctx.Err() != nil && err != nil:
		return none, problem.Wrap(err, "unit_start_failed", "%s did not start in time", name)
	case err != nil:
		return none, problem.Wrap(err, "unit_start_failed", "The connection to systemd was lost while %s started", name)
	case result != "done":
		st, _ := m.Inspect(ctx, name)
		m.Release(ctx, name)
		return none, problem.New("unit_start_failed", "%s did not start: the job ended with %q (%s)", name, result, st).
			WithHint("See: journalctl --user -u %s", name)
	}
	return m.Reference(ctx, name)
}

// replyBound is how long systemd may take to say that it has queued a job
// (sd-bus's own default for any call).
const replyBound = 25 * time.Second

// jobLook is how often a unit is looked at while its job runs.
const jobLook = 500 * time.Millisecond

var errLost = errors.New("the connection to systemd was lost")

// outcome waits for the result of a unit's job. A systemd that executes itself
// anew meanwhile tells nobody of it: the unit that is where the job leads is
// as good.
func outcome(ctx context.Context, calls *link, name string, done <-chan string, there func(State) bool) (string, error) {
	tick := time.NewTicker(jobLook)
	defer tick.Stop()
	for {
		select {
		case result := <-done:
			return result, nil
		case <-ctx.Done():
			return "", ctx.Err()
		case <-calls.Context().Done():
			return "", errLost
		case <-tick.C:
			if st, err := inspect(ctx, calls, name); err == nil && there(st) {
				return "done", nil
			}
		}
	}
}

// Release lets systemd forget a unit that has ended.
func (m *Manager) Release(ctx context.Context, name string) {
	if _, calls, err := m.connection(ctx); err == nil && calls.bus {
		_ = calls.systemd().CallWithContext(ctx, managerIf+".UnrefUnit", 0, name).Err
	}
}

// Reference reads which activation of a unit runs and validates its control
// group: the path must be the one that follows from the manager's group, the
// unit's slice and its name, and the main process, while it lives, must be in it.
// Errors: unit_missing, unit_not_validated.
func (m *Manager) Reference(ctx context.Context, name string) (ref messages.UnitRef, err error) {
	err = m.again(ctx, func(_ *sd.Conn, l *link) (err error) {
		ref, err = reference(ctx, l, name)
		return err
	})
	return ref, err
}

func reference(ctx context.Context, calls *link, name string) (messages.UnitRef, error) {
	var none messages.UnitRef
	p, err := properties(ctx, calls, name)
	if err != nil {
		return none, err
	}
	invalid := func(format string, args ...any) (messages.UnitRef, error) {
		return none, problem.New("unit_not_validated", "%s: %s", name, fmt.Sprintf(format, args...)).
			WithHint("The unit is not trusted and nothing of its launch is deleted. Stop it with: systemctl --user stop %s", name)
	}
	root, err := calls.systemd().GetProperty(managerIf + ".ControlGroup")
	if err != nil {
		return none, problem.Wrap(err, "systemd_unavailable", "systemd did not tell its control group")
	}
	expected := groupPath(text(root), p.str("Slice"), name)
	id, _ := p["InvocationID"].Value().([]byte)
	switch got := p.str("ControlGroup"); {
	case len(id) != 16:
		return invalid("it has no invocation")
	case p.str("Id") != name:
		return invalid("systemd calls it %q", p.str("Id"))
	case expected == "":
		return invalid("slice %q is not understood", p.str("Slice"))
	case got != "" && got != expected:
		return invalid("its control group is %q instead of %q", got, expected)
	}
	ref := messages.UnitRef{Name: name, InvocationID: hex.EncodeToString(id), ControlGroup: expected}
	if pid, ok := p["MainPID"].Value().(uint32); ok && pid != 0 {
		if in, err := processGroup(int(pid)); err == nil && in != expected && !within(in, expected) {
			// It may have ended, and its id may belong to another by now.
			again, err := properties(ctx, calls, name)
			if err == nil && again["MainPID"].Value() == p["MainPID"].Value() {
				return invalid("its main process is in the control group %q", in)
			}
		}
	}
	return ref, nil
}

// Stop asks systemd to stop the unit and waits for the job: SIGTERM to the
// control group, SIGKILL after StopTimeout. A unit that is gone, or another
// activation of the name, is a success: this one has ended.
func (m *Manager) Stop(ctx context.Context, ref messages.UnitRef) error {
	return m.again(ctx, func(conn *sd.Conn, l *link) error { return stop(ctx, conn, l, ref) })
}

func stop(ctx context.Context, conn *sd.Conn, calls *link, ref messages.UnitRef) error {
	st, err := inspect(ctx, calls, ref.Name)
	if err != nil {
		return err
	}
	if st.InvocationID != ref.InvocationID || st.Over() {
		return nil
	}
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(ctx, ref.Name, "replace", done); err != nil {
		if isError(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return nil
		}
		return problem.Wrap(err, "unit_stop_failed", "systemd refused to stop %s", ref.Name)
	}
	// Whatever the result: what counts is whether it is quiet.
	_, err = outcome(ctx, calls, ref.Name, done, func(st State) bool { return st.InvocationID != ref.InvocationID || st.Over() })
	switch {
	case errors.Is(err, errLost): // asked again over a new connection, or over
		return problem.New("systemd_unavailable", "The connection to systemd was lost while %s stopped", ref.Name)
	case err != nil:
		return problem.Wrap(err, "unit_stop_failed", "%s did not stop in time", ref.Name)
	}
	return nil
}

// OwnUnit is the service or scope of this manager that the calling process
// runs in, or "" when it runs in none.
func (m *Manager) OwnUnit(ctx context.Context) (name string, err error) {
	err = m.again(ctx, func(conn *sd.Conn, _ *link) (err error) {
		name, err = ownUnit(ctx, conn)
		return err
	})
	return name, err
}

func ownUnit(ctx context.Context, conn *sd.Conn) (string, error) {
	name, err := conn.GetUnitNameByPID(ctx, uint32(os.Getpid()))
	switch {
	case isError(err, "org.freedesktop.systemd1.NoUnitForPID"):
		return "", nil
	case err != nil:
		return "", problem.Wrap(err, "systemd_unavailable", "systemd did not tell the unit of process %d", os.Getpid())
	case name == "init.scope" || !unitName.MatchString(name):
		return "", nil // outside the manager's own tree it answers with its root
	}
	return name, nil
}

// EnterScope puts the calling process into a scope of its own, so that
// launches can be bound to a daemon that was started from a shell.
func (m *Manager) EnterScope(ctx context.Context) (string, error) {
	name := "sophia-daemon-" + strconv.Itoa(os.Getpid()) + ".scope"
	_, err := m.start(ctx, name, []sd.Property{
		prop("Description", "Sophia daemon, in the foreground"),
		prop("CollectMode", "inactive-or-failed"),
		sd.PropPids(uint32(os.Getpid())),
	})
	if err != nil {
		return "", err
	}
	m.Release(ctx, name)
	return name, nil
}

func isError(err error, name string) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == name
}
