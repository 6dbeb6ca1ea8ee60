package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sophia/hostd/unit"
	"sophia/messages/problem"
)

// Program is the daemon's file name.
const Program = "sophiad"

// Service is sophia-daemon.service of a user's manager.
type Service struct {
	Manager *unit.Manager
	Getenv  func(string) string
	Program string // absolute path of sophiad
}

// Start starts the service; one that runs is left alone. Errors:
// systemd_unavailable, unit_start_failed.
func (s *Service) Start(ctx context.Context) error {
	state, err := s.Manager.Inspect(ctx, unit.DaemonUnit)
	if err != nil {
		return err
	}
	if state.Active == "active" || state.Active == "activating" || state.Active == "reloading" {
		return nil
	}
	if s.Getenv("SOPHIA_HOME") != "" {
		return s.Manager.StartDaemon(ctx, unit.DaemonSpec{Program: s.Program, Environment: s.environment()})
	}
	if err := s.install(); err != nil {
		return err
	}
	return s.Manager.StartInstalled(ctx, unit.DaemonUnit)
}

// Stop stops the service and whatever is bound to it, and waits for the end.
func (s *Service) Stop(ctx context.Context) error {
	return s.Manager.StopNamed(ctx, unit.DaemonUnit)
}

// Running says whether the service runs or is about to.
func (s *Service) Running(ctx context.Context) (bool, error) {
	state, err := s.Manager.Inspect(ctx, unit.DaemonUnit)
	return err == nil && !state.Over(), err
}

// passed are the variables that a transient daemon gets: its home, and what it
// needs to reach the same manager and to find the owner's programs.
var passed = []string{"SOPHIA_HOME", "HOME", "PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "LANG"}

func (s *Service) environment() []string {
	var env []string
	for _, name := range passed {
		if v := s.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// unitFile is the installed unit. Launches bind to it by its name.
func (s *Service) unitFile() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Written by "sophia up".
[Unit]
Description=Sophia, the daemon between you and your agents

[Service]
Type=exec
ExecStart=%s
Restart=on-failure
RestartSec=1
UMask=0077
LimitCORE=0

[Install]
WantedBy=default.target
`, quote(s.Program))
	return b.Bytes()
}

// quote is systemd.service(5)'s quoting of one word of a command line.
func quote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(word) + `"`
}

// install writes the unit file where it is missing or not as it should be.
func (s *Service) install() error {
	config := s.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(s.Getenv("HOME"), ".config")
	}
	path := filepath.Join(config, "systemd", "user", unit.DaemonUnit)
	want := s.unitFile()
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, want) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.Wrap(err, "unit_not_installed", "%s can't be read", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return problem.Wrap(err, "unit_not_installed", "%s can't be made", filepath.Dir(path))
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, want, 0o644); err != nil {
		return problem.Wrap(err, "unit_not_installed", "%s can't be written", temp)
	}
	if err := os.Rename(temp, path); err != nil {
		return problem.Wrap(err, "unit_not_installed", "%s can't be written", path)
	}
	return nil
}
