package login

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// A process that opened a terminal is found as its holder, and is no emulator
// whatever it is called.
func TestMachine_FindsWhoOpenedATerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(slave.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	n, ok := ptsIndex(st.Rdev)
	if !ok || terminalName(st.Rdev) != slave.Name()[len("/dev/"):] {
		t.Fatalf("%s is %s", slave.Name(), terminalName(st.Rdev))
	}
	m := machine{}
	if on, err := m.devpts(); err != nil || on != st.Dev {
		t.Errorf("devpts is %d, %v; %s is on %d", on, err, slave.Name(), st.Dev)
	}
	self := func(h Holder) bool { return h.PID == os.Getpid() }
	held, err := m.holders(n)
	i := slices.IndexFunc(held, self)
	if err != nil || i < 0 || held[i].Emulator {
		t.Fatalf("%+v, %v", held, err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.extra = []string{exe} // as the owner may say in config.toml
	if held, err = m.holders(n); err != nil || !held[slices.IndexFunc(held, self)].Emulator {
		t.Errorf("named by the owner: %+v, %v", held, err)
	}
	master.Close()
	if held, err = m.holders(n); err != nil || slices.ContainsFunc(held, self) {
		t.Errorf("closed: %+v, %v", held, err)
	}
}

func TestLogind_NoBusIsNoLogind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	if _, err := (logind{"unix:path=" + path}).logins(t.Context()); !errors.Is(err, errNoLogind) {
		t.Errorf("no socket: %v", err)
	}
	bus := startBus(t)
	if _, err := (logind{bus}).logins(t.Context()); !errors.Is(err, errNoLogind) {
		t.Errorf("a bus without logind: %v", err)
	}
}

// manager is org.freedesktop.login1 with the two sessions that were seen: of an
// ssh login, and one that ends while it is looked at.
type manager struct{}

type session struct {
	ID   string
	UID  uint32
	User string
	Seat string
	Path dbus.ObjectPath
}

func (manager) ListSessions() ([]session, *dbus.Error) {
	return []session{{"2", 1001, "owner", "", "/s/2"}, {"3", 1001, "owner", "", "/s/3"}}, nil
}

type properties map[string]dbus.Variant

func (p properties) GetAll(string) (map[string]dbus.Variant, *dbus.Error) { return p, nil }

func TestLogind_ReadsSessions(t *testing.T) {
	bus := startBus(t)
	conn, err := dbus.Connect(bus)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := properties{"Class": dbus.MakeVariant("user"), "Type": dbus.MakeVariant("tty"), "State": dbus.MakeVariant("active"),
		"Leader": dbus.MakeVariant(uint32(190)), "TTY": dbus.MakeVariant("pts/0"), "Remote": dbus.MakeVariant(true)}
	err = errors.Join(conn.Export(manager{}, "/org/freedesktop/login1", logindName+".Manager"),
		conn.Export(seen, "/s/2", "org.freedesktop.DBus.Properties"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName(logindName, 0); err != nil {
		t.Fatal(err)
	}
	got, err := (logind{bus}).logins(t.Context())
	want := Login{UID: 1001, Class: "user", Type: "tty", State: "active", Leader: 190, TTY: "pts/0"}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// startBus runs a bus of the test's own.
func startBus(t *testing.T) (address string) {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("skipped: no dbus-daemon is installed")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=`+dir+`/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "--config-file="+config, "--nofork", "--nopidfile", "--print-address")
	c.WaitDelay = 5 * time.Second
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = c.Wait() }) // it was killed
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the bus did not start")
	}
	return "unix:path=" + dir + "/bus"
}
