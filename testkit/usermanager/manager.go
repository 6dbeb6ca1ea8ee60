package usermanager

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sophia/messages/problem"
)

// Manager is one running user manager.
type Manager struct {
	RuntimeDir string // XDG_RUNTIME_DIR
	Group      string // path of its control group in the v2 tree, from the mount on
	GroupDir   string // the same as a folder

	groups  groups
	bus     *process
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
// ctx bounds the start only. Errors: user_manager_unavailable (this machine
// can't run one; the hint says why), user_manager_failed.
func Run(ctx context.Context, dir string) (_ *Manager, err error) {
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
	if err := os.WriteFile(filepath.Join(dir, "units", "default.target"), []byte("[Unit]\nDescription=A private user manager\n"), 0o600); err != nil {
		return nil, failed(err, "can't write the default target")
	}
	if err := m.StartBus(ctx); err != nil {
		return nil, err
	}
	if err := m.startManager(ctx, systemd); err != nil {
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

// StartBus starts the session bus; Run has done it. It returns when the bus
// listens. A manager that was there before is told to connect again.
func (m *Manager) StartBus(ctx context.Context) error {
	conf := filepath.Join(m.RuntimeDir, "bus.conf")
	text := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=` + m.busPath() + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return failed(err, "can't write the bus's configuration")
	}
	os.Remove(m.busPath())
	r, w, err := os.Pipe()
	if err != nil {
		return failed(err, "no pipe")
	}
	defer r.Close()
	cmd := m.inGroup("bus", "dbus-daemon", "--config-file="+conf, "--nofork", "--nopidfile", "--print-address=3")
	cmd.ExtraFiles = []*os.File{w}
	m.bus, err = start(cmd)
	w.Close()
	if err != nil {
		return failed(err, "can't start dbus-daemon")
	}
	// It prints its address once it listens; an early end closes the pipe.
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		return failed(err, "dbus-daemon did not come up")
	}
	if m.systemd != nil {
		return m.systemd.cmd.Process.Signal(syscall.SIGUSR1) // systemd(1): try to reconnect to the bus
	}
	return nil
}

// StopBus kills the session bus: a fault to survive.
func (m *Manager) StopBus() {
	if m.bus != nil {
		m.bus.cmd.Process.Kill()
		<-m.bus.done
	}
}

// KillManager kills the manager itself with SIGKILL: a fault to survive.
func (m *Manager) KillManager() {
	m.systemd.cmd.Process.Kill()
	<-m.systemd.done
}

// Reexec makes the manager execute itself again, which drops every connection.
func (m *Manager) Reexec(ctx context.Context) error {
	c := m.Command("systemctl", "--user", "daemon-reexec")
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("daemon-reexec: %w: %s", err, out)
	}
	return nil
}

func (m *Manager) busPath() string { return filepath.Join(m.RuntimeDir, "bus") }

// startManager returns when systemd has said READY=1 (sd_notify(3)).
func (m *Manager) startManager(ctx context.Context, systemd string) error {
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
	cmd := m.inGroup("", systemd, "--user", "--log-target=console")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(managerEnv(), m.Env()...)
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
	return systemd, nil
}

func unavailable(why, hint string) error {
	return problem.New("user_manager_unavailable", "No systemd user manager can run here: %s", why).WithHint("%s", hint)
}

func failed(cause error, format string, args ...any) error {
	return problem.Wrap(cause, "user_manager_failed", format, args...)
}
