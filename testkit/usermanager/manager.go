package usermanager

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// Manager is one running user manager.
type Manager struct {
	RuntimeDir string // XDG_RUNTIME_DIR
	Group      string // path of its control group in the v2 tree, from the mount on
	GroupDir   string // the same as a folder

	groups  groups
	systemd *process
	guard   *exec.Cmd
	release io.Closer // closing it lets the guard tear down
	stop    sync.Once
	stopErr error
}

// Start runs a manager for a test and stops it when the test ends. It skips
// the test, saying why, where no manager can run at all.
func Start(tb testing.TB) *Manager {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	base := filepath.Join(cache, "sophia-test") // not under a temp folder: Codex refuses those
	if err := os.MkdirAll(base, 0o700); err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "um-")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := Run(ctx, dir)
	if err != nil {
		os.RemoveAll(dir)
		if problem.CodeOf(err) == "user_manager_unavailable" {
			tb.Skip("skipped: ", err)
		}
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Stop(); err != nil {
			tb.Errorf("user manager: %v", err)
		}
	})
	return m
}

// Run starts a manager whose runtime folder is dir, which is made where
// missing and removed by Stop. The path must be short: sockets lie below it.
// env is set for the manager besides its own. ctx bounds the start only. Errors: user_manager_unavailable (this machine
// can't run one; the hint says why), user_manager_failed.
func Run(ctx context.Context, dir string, env ...string) (_ *Manager, err error) {
	systemd, err := programs()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "units"), 0o700); err != nil {
		return nil, failed(err, "can't make %s", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, failed(err, "can't make %s private", dir)
	}
	m := &Manager{RuntimeDir: dir}
	if m.groups, err = makeGroups(filepath.Base(dir)); err != nil {
		return nil, err
	}
	m.Group, m.GroupDir = m.groups.path, m.groups.unified
	if err := m.startGuard(); err != nil {
		m.groups.remove()
		return nil, failed(err, "can't start the guard")
	}
	defer func() {
		if err != nil {
			m.Stop()
		}
	}()
	// Socket units would start agents of the desktop (gpg, ssh, …) for each manager.
	for _, unit := range []string{"sockets.target", "timers.target", "paths.target"} {
		if err := os.Symlink("/dev/null", filepath.Join(dir, "units", unit)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, failed(err, "can't mask %s", unit)
		}
	}
	for unit, text := range busUnits(dir) {
		if err := os.WriteFile(filepath.Join(dir, "units", unit), []byte(text), 0o600); err != nil {
			return nil, failed(err, "can't write %s", unit)
		}
	}
	if err := m.startManager(ctx, systemd, env); err != nil {
		return nil, err
	}
	if err := m.onBus(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// Env is what a program needs in its environment to use this manager, in the
// form of os.Environ.
func (m *Manager) Env() []string {
	return []string{"XDG_RUNTIME_DIR=" + m.RuntimeDir, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + m.busPath()}
}

// Getenv is os.Getenv of a program that runs under this manager.
func (m *Manager) Getenv(name string) string {
	for _, kv := range m.Env() {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return os.Getenv(name)
}

// Command is exec.Command with the environment for this manager.
func (m *Manager) Command(name string, arg ...string) *exec.Cmd {
	c := exec.Command(name, arg...)
	c.Env = append(os.Environ(), m.Env()...)
	return c
}

// busUnits lets systemd run the bus, as on a desktop. It must: systemd 252
// joins a session bus only if its own dbus.service runs, whatever
// DBUS_SESSION_BUS_ADDRESS says. The bus starts nothing by activation.
func busUnits(dir string) map[string]string {
	// READY=1 comes at basic.target: the socket must be there by then.
	return map[string]string{
		"default.target": "[Unit]\nDescription=A private user manager\nRequires=dbus.service\nAfter=dbus.service\n",
		"dbus.socket":    "[Unit]\nDescription=Private session bus\nDefaultDependencies=no\nBefore=basic.target\n[Socket]\nListenStream=%t/bus\n",
		"dbus.service": "[Unit]\nDescription=Private session bus\nRequires=dbus.socket\nAfter=dbus.socket\n" +
			"[Service]\nType=notify\nNotifyAccess=main\nSlice=session.slice\n" +
			"ExecStart=dbus-daemon --config-file=" + dir + "/bus.conf --address=systemd: --nofork --nopidfile --syslog-only\n",
		"../bus.conf": `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/run</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
`,
	}
}

// StopBus stops the session bus: a fault to survive. The manager's direct
// socket stays.
func (m *Manager) StopBus(ctx context.Context) error {
	return m.systemctl(ctx, "stop", "dbus.socket", "dbus.service")
}

// StartBus starts the session bus again and returns when systemd is on it.
func (m *Manager) StartBus(ctx context.Context) error {
	if err := m.systemctl(ctx, "start", "dbus.socket", "dbus.service"); err != nil {
		return err
	}
	return m.onBus(ctx)
}

// onBus waits until systemd has its name on the bus.
func (m *Manager) onBus(ctx context.Context) error {
	conn, err := dbus.Connect("unix:path="+m.busPath(), dbus.WithContext(ctx))
	if err != nil {
		return failed(err, "can't connect to the session bus")
	}
	defer conn.Close()
	const name = "org.freedesktop.systemd1"
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	err = conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, name))
	for err == nil {
		var there bool
		if err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, name).Store(&there); err == nil && there {
			return nil
		}
		select {
		case <-signals:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return failed(err, "systemd did not come to the session bus")
}

func (m *Manager) systemctl(ctx context.Context, arg ...string) error {
	c := exec.CommandContext(ctx, "systemctl", append([]string{"--user"}, arg...)...)
	c.Env = append(os.Environ(), m.Env()...)
	if out, err := c.CombinedOutput(); err != nil {
		return failed(err, "systemctl %v: %s", arg, out)
	}
	return nil
}

// KillManager kills the manager itself with SIGKILL: a fault to survive.
func (m *Manager) KillManager() {
	m.systemd.cmd.Process.Kill()
	<-m.systemd.done
}

// Freeze stops the manager's process in its tracks: it answers nobody until
// Thaw. A fault to survive.
func (m *Manager) Freeze() error { return m.systemd.cmd.Process.Signal(unix.SIGSTOP) }

// Thaw lets a frozen manager go on.
func (m *Manager) Thaw() error { return m.systemd.cmd.Process.Signal(unix.SIGCONT) }

// Reexec makes the manager execute itself again, which drops every connection.
func (m *Manager) Reexec(ctx context.Context) error { return m.systemctl(ctx, "daemon-reexec") }

func (m *Manager) busPath() string { return filepath.Join(m.RuntimeDir, "bus") }

// startManager returns when systemd has said READY=1 (sd_notify(3)).
func (m *Manager) startManager(ctx context.Context, systemd string, env []string) error {
	notify := filepath.Join(m.RuntimeDir, "ready")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		return failed(err, "can't listen at %s", notify)
	}
	defer os.Remove(notify)
	defer sock.Close()
	log, err := os.OpenFile(filepath.Join(m.RuntimeDir, "manager.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return failed(err, "no log")
	}
	defer log.Close()
	cmd := m.inGroup(systemd, "--user", "--log-target=console")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(append(managerEnv(), env...), m.Env()...)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+notify, "SYSTEMD_UNIT_PATH="+filepath.Join(m.RuntimeDir, "units")+":")
	if m.systemd, err = start(cmd); err != nil {
		return failed(err, "can't start %s", systemd)
	}
	go func() { // unblocks the read
		select {
		case <-ctx.Done():
		case <-m.systemd.done:
		}
		sock.SetReadDeadline(time.Unix(1, 0))
	}()
	buf := make([]byte, 4096)
	for {
		n, err := sock.Read(buf)
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			return failed(err, "systemd --user did not come up; its log:\n%s", text)
		}
		if bytes.Contains(buf[:n], []byte("READY=1")) {
			return nil
		}
	}
}

// managerEnv is a plain environment: units inherit it.
func managerEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func programs() (systemd string, err error) {
	for _, p := range []string{"/lib/systemd/systemd", "/usr/lib/systemd/systemd"} {
		if _, err := os.Stat(p); err == nil {
			systemd = p
			break
		}
	}
	if systemd == "" {
		return "", unavailable("systemd is not installed", "Install the package systemd.")
	}
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		return "", unavailable("dbus-daemon is not installed", "Install the package dbus.")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		if err := os.MkdirAll("/run/systemd/system", 0o755); err != nil {
			return "", unavailable("/run/systemd/system is missing", "As root: mkdir -p /run/systemd/system")
		}
	}
	inaccessibleNodes()
	return systemd, nil
}

// inaccessibleNodes makes what is made at boot or at login where systemd is
// PID 1: units that hide files bind these over them, and fail with status 226
// (namespace) without them. They are not looked for in XDG_RUNTIME_DIR.
func inaccessibleNodes() {
	dir := "/run/systemd/inaccessible"
	if uid := os.Geteuid(); uid != 0 {
		dir = "/run/user/" + itoa(uid) + "/systemd/inaccessible"
	}
	if os.MkdirAll(filepath.Dir(dir), 0o755) != nil || os.Mkdir(dir, 0o755) != nil {
		return
	}
	os.Mkdir(filepath.Join(dir, "dir"), 0)
	for name, kind := range map[string]uint32{"reg": unix.S_IFREG, "fifo": unix.S_IFIFO, "sock": unix.S_IFSOCK, "chr": unix.S_IFCHR, "blk": unix.S_IFBLK} {
		_ = unix.Mknod(filepath.Join(dir, name), kind, 0) // device nodes may be forbidden; few properties need them
	}
}

func unavailable(why, hint string) error {
	return problem.New("user_manager_unavailable", "No systemd user manager can run here: %s", why).WithHint("%s", hint)
}

func failed(cause error, format string, args ...any) error {
	return problem.Wrap(cause, "user_manager_failed", format, args...)
}
