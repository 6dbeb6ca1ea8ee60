package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sophia/hostd/paths"
	"sophia/testkit/usermanager"
)

// World is all that Sophia's programs run in. Set Person and Extra before
// StartManager.
type World struct {
	Bin     string // folder of the programs
	Dir     string // where commands run
	Home    string // SOPHIA_HOME is the folder s in it
	Person  string // HOME of the owner, and of the daemon
	Extra   []string
	Manager *usermanager.Manager // nil: a machine without systemd
	Tray    *Tray                // nil until StartTray

	owner owner
}

// New makes the folders: a fresh one whose name begins with prefix, below the
// user's cache, because Codex refuses a configuration home below a temp folder
// and unix sockets need a short path. bin has the programs, dir is where
// commands run.
func New(bin, dir, prefix string) (*World, error) {
	for _, program := range []string{"sophia", "sophiad"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("no programs in %s: %w", bin, err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(cache, prefix)
	if err != nil {
		return nil, err
	}
	w := &World{Bin: bin, Dir: dir, Home: home, Person: filepath.Join(home, "person")}
	for _, d := range []string{w.Person, w.sophiaHome()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, errors.Join(err, w.Close(false))
		}
	}
	return w, nil
}

func (w *World) sophiaHome() string { return filepath.Join(w.Home, "s") }

// Dirs are the daemon's folders.
func (w *World) Dirs() paths.Dirs {
	d, err := paths.Resolve(func(name string) string {
		if name == "SOPHIA_HOME" {
			return w.sophiaHome()
		}
		return ""
	})
	if err != nil {
		panic(err) // the cache folder's path is too long for a socket
	}
	return d
}

// Configure writes config.toml; the daemon listens on a free port, and takes the
// tray on a terminal that is no login's.
func (w *World) Configure(text string) error {
	d := w.Dirs()
	if err := os.MkdirAll(d.Config, 0o700); err != nil {
		return err
	}
	return os.WriteFile(d.ConfigFile(), []byte("listen = \"127.0.0.1:0\"\napprovals.presence = \"program\"\n"+text), 0o600)
}

// StartManager starts the private systemd user manager.
func (w *World) StartManager(ctx context.Context) (err error) {
	w.Manager, err = usermanager.Run(ctx, filepath.Join(w.Home, "m"), "HOME="+w.Person)
	return err
}

// Env is the environment of the owner's shell.
func (w *World) Env() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=" + os.Getenv("USER"), "SHELL=/bin/bash"}
	if w.Manager != nil {
		env = append(env, w.Manager.Env()...)
	} else {
		env = append(env, "XDG_RUNTIME_DIR="+filepath.Join(w.Home, "none"))
	}
	return append(append(env, "SOPHIA_HOME="+w.sophiaHome(), "HOME="+w.Person, "TERM=xterm-256color", "NO_COLOR=1"), w.Extra...)
}

// Command is one of Sophia's programs as the owner runs it.
func (w *World) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(w.Bin, program), args...)
	c.Env, c.Dir = w.Env(), w.Dir
	return c
}

// CommandError is a command of the CLI that failed.
type CommandError struct {
	Args   []string
	Output string // what it printed on both streams
	Err    error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("sophia %s: %v\n%s", strings.Join(e.Args, " "), e.Err, e.Output)
}

func (e *CommandError) Unwrap() error { return e.Err }

// Sophia runs the CLI with --json and decodes the answer into into, unless that
// is nil. The error is a CommandError.
func (w *World) Sophia(ctx context.Context, into any, args ...string) error {
	var out, errs bytes.Buffer
	c := w.Command(ctx, "sophia", append([]string{"--json"}, args...)...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return &CommandError{args, out.String() + errs.String(), err}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out.Bytes(), into)
}

// Close ends everything, last first. keep leaves the folder behind.
func (w *World) Close(keep bool) error {
	if w.Tray != nil {
		w.Tray.Close()
	}
	w.forget()
	var err error
	if w.Manager != nil {
		err = w.Manager.Stop()
	}
	if !keep {
		err = errors.Join(err, RemoveAll(w.Home))
	}
	return err
}

// RemoveAll removes a folder with read-only ones in it, as adopted harnesses are.
func RemoveAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// CodexAt is the configuration that points Codex at a model on loopback, as an
// owner with a model provider of their own would.
func CodexAt(url string) string {
	return `
[harness.codex.config]
model = "mock-model"
model_provider = "mock"

[harness.codex.config.model_providers.mock]
name = "mock"
base_url = "` + url + `/v1"
wire_api = "responses"
supports_websockets = false
`
}
