package unit

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"sophia/messages/problem"
)

const (
	busName   = "org.freedesktop.systemd1"
	busPath   = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerIf = "org.freedesktop.systemd1.Manager"
	unitIf    = "org.freedesktop.systemd1.Unit"
	serviceIf = "org.freedesktop.systemd1.Service"
)

// dialTimeout bounds each way of reaching systemd: a bus whose manager hangs
// must not keep a launch waiting.
const dialTimeout = 5 * time.Second

// link is one connection. Over the session bus systemd can hold references to
// units for us; over its direct socket it can't.
type link struct {
	*dbus.Conn
	bus bool
}

func (l *link) systemd() dbus.BusObject { return l.Object(busName, busPath) }

// dial reaches the user's systemd manager: over the session bus, or where that
// is gone or has no systemd on it, over the manager's direct socket.
func dial(ctx context.Context, getenv func(string) string) (*link, error) {
	run := getenv("XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	address := getenv("DBUS_SESSION_BUS_ADDRESS")
	if address == "" {
		address = "unix:path=" + filepath.Join(run, "bus")
	}
	l, busErr := connect(ctx, address, true)
	if busErr == nil {
		return l, nil
	}
	l, err := connect(ctx, "unix:path="+filepath.Join(run, "systemd", "private"), false)
	if err == nil {
		return l, nil
	}
	return nil, problem.Wrap(busErr, "systemd_unavailable", "The user's systemd manager can't be reached, neither at %s nor directly (%v)", address, err).
		WithHint("Agents run as units of a systemd user manager. Log in through a session that has one, or see: sophia doctor")
}

func connect(ctx context.Context, address string, bus bool) (*link, error) {
	// The context given to godbus ends the connection with it, so the dial has
	// one that is only cancelled when the dial fails.
	conn, err := dbus.Dial(address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	timer := time.AfterFunc(dialTimeout, func() { conn.Close() })
	defer timer.Stop()
	l := &link{Conn: conn, bus: bus}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && bus {
		err = conn.Hello()
	}
	if err == nil {
		// Not Peer.Ping: over the direct socket systemd 252 never answers it.
		err = l.systemd().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart, managerIf, "Version").Err
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}
