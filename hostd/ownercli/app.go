package ownercli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/term"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/messages/problem"
)

// App is what commands need of the world. Make the real one with NewApp.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	OutTTY   bool
	InTTY    bool
	Getenv   func(string) string
	Dir      string // the working directory
	Programs string // the folder of sophiad and the others
	Version  string // of this program
	JSON     bool
	Attach   Attacher
	Now      func() time.Time // nil: time.Now
	Columns  int              // of the terminal; 0: asked when needed, and unlimited where it can't be

	dirs   *paths.Dirs
	client *ownerapi.Client
	key    *ownerkey.Key
}

// NewApp is the App of this process.
func NewApp() (*App, error) {
	exe, err := os.Executable() // resolves /proc/self/exe
	if err != nil {
		return nil, problem.Wrap(err, "programs_not_found", "this program can't find its own folder")
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, problem.Wrap(err, "folder_not_read", "the working directory is gone")
	}
	return &App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())), InTTY: term.IsTerminal(int(os.Stdin.Fd())),
		Getenv: os.Getenv, Dir: dir, Programs: filepath.Dir(exe), Attach: attachTerminal,
	}, nil
}

func (a *App) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// Dirs are Sophia's folders, by the environment.
func (a *App) Dirs() (paths.Dirs, error) {
	if a.dirs == nil {
		d, err := paths.Resolve(a.Getenv)
		if err != nil {
			return d, err
		}
		a.dirs = &d
	}
	return *a.dirs, nil
}

// Client calls the daemon with the owner's key.
func (a *App) Client() (*ownerapi.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	key, err := ownerkey.Load(dirs.OwnerKey())
	if err != nil {
		if problem.CodeOf(err) == "owner_key_missing" { // so there was never a daemon
			return nil, problem.Wrap(err, "daemon_unreachable", "Sophia was never started here").WithHint("Start it with: sophia up")
		}
		return nil, err
	}
	client, err := ownerapi.NewClient(dirs.OwnerSocket(), key)
	if err != nil {
		key.Close()
		return nil, err
	}
	a.key, a.client = key, client
	return client, nil
}

// forget makes the next Client look again, after the key was made.
func (a *App) forget() {
	a.Close()
	a.client, a.key = nil, nil
}

// Close zeroes the key.
func (a *App) Close() {
	if a.client != nil {
		a.client.Close()
	}
	if a.key != nil {
		a.key.Close()
	}
}

// program is the path of another program of Sophia.
func (a *App) program(name string) (string, error) {
	path := filepath.Join(a.Programs, name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", problem.Wrap(err, "program_missing", "%s is not in %s", name, a.Programs).
			WithHint("All of Sophia's programs lie in one folder. In the checkout: ./justw build")
	}
	return path, nil
}

// patience is how long a call may take before the person is told what it may
// be waiting for.
const patience = time.Second

// gated is call for what may wait for the owner's approval.
func gated[T any](ctx context.Context, a *App, f func(context.Context, *ownerapi.Client) (T, error)) (T, error) {
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (T, error) {
		waiting, answered := context.WithCancel(ctx)
		var told sync.WaitGroup
		told.Go(func() {
			select {
			case <-time.After(patience):
				a.tellWaiting(waiting, c)
			case <-waiting.Done():
			}
		})
		defer told.Wait()
		defer answered()
		return f(ctx, c)
	})
}

// tellWaiting says that the owner has to answer, and where, if something waits.
func (a *App) tellWaiting(ctx context.Context, c *ownerapi.Client) {
	if s, err := c.Status(ctx); err == nil && s.Waiting > 0 {
		fmt.Fprintln(a.Err, "Waiting for your approval in the Sophia tray.")
		a.tellNoTray(s)
	}
}

// tellNoTray says how to open a tray when none is.
func (a *App) tellNoTray(s ownerapi.Status) {
	if s.Trays == 0 {
		fmt.Fprintf(a.Err, "No tray is open. In another terminal:  %s\n", a.line("sophia-tray", "--terminal"))
	}
}

// call runs f with a client; the common case of a command.
func call[T any](ctx context.Context, a *App, f func(context.Context, *ownerapi.Client) (T, error)) (T, error) {
	c, err := a.Client()
	if err != nil {
		var zero T
		return zero, err
	}
	return f(ctx, c)
}
