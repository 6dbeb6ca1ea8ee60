package login

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// systemBus is the bus's well-known address. The environment is not asked: a
// process of the owner could have set it for the daemon.
const systemBus = "unix:path=/run/dbus/system_bus_socket"

const (
	logindName = "org.freedesktop.login1"
	busWait    = 5 * time.Second
)

// errNoLogind is a machine that has no logind and can't start one. Only root
// can bring that about.
var errNoLogind = errors.New("this machine has no logind")

// logind asks systemd-logind, or another that speaks its protocol (elogind).
type logind struct{ bus string }

func (l logind) logins(ctx context.Context) (out []Login, err error) {
	conn, err := dbus.Connect(l.bus, dbus.WithContext(ctx))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, errNoLogind
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var sessions []struct {
		ID   string
		UID  uint32
		User string
		Seat string
		Path dbus.ObjectPath
	}
	if err := conn.Object(logindName, "/org/freedesktop/login1").CallWithContext(ctx, logindName+".Manager.ListSessions", 0).Store(&sessions); err != nil {
		if refusal, ok := errors.AsType[dbus.Error](err); ok && (refusal.Name == "org.freedesktop.DBus.Error.ServiceUnknown" ||
			strings.HasPrefix(refusal.Name, "org.freedesktop.DBus.Error.Spawn.")) {
			return nil, errNoLogind
		}
		return nil, err
	}
	for _, s := range sessions {
		var p map[string]dbus.Variant
		call := conn.Object(logindName, s.Path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, logindName+".Session")
		if err := call.Store(&p); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			continue // it has ended meanwhile
		}
		text := func(name string) string { s, _ := p[name].Value().(string); return s }
		leader, _ := p["Leader"].Value().(uint32)
		if leader == 0 {
			continue
		}
		out = append(out, Login{UID: s.UID, Class: text("Class"), Type: text("Type"), State: text("State"), Leader: int(leader), TTY: text("TTY")})
	}
	return out, nil
}
