package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"sophia/hostd/ownerapi"
	"sophia/testkit/world"
)

// rig is a world with a daemon and two harnesses of the owner's own: "large",
// of the size of a real one, and "small".
type rig struct {
	*world.World
	api       *ownerapi.Client
	workspace string // its id
	large     string // the padded program's path
	pid       int    // of the daemon
	seats     int
}

const version = "fake-harness 1.0.0"

func newRig(ctx context.Context, programs string, size int64) (_ *rig, err error) {
	checkout, err := filepath.Abs(os.Getenv("SOPHIA_CHECKOUT"))
	if err != nil {
		return nil, err
	}
	if programs == "" {
		programs = filepath.Join(checkout, "bin")
	}
	w, err := world.New(programs, "/", "sophia-bench-")
	if err != nil {
		return nil, fmt.Errorf("%w; run ./justw bench launch", err)
	}
	r := &rig{World: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(false))
		}
	}()
	// A build of the checkout during the bench must not change what runs.
	if w.Bin, err = copied(w.Bin, filepath.Join(w.Home, "bin")); err != nil {
		return nil, err
	}
	small := filepath.Join(w.Home, "small")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", small, "sophia/testkit/fakeharness/fake-harness")
	build.Dir, build.Env = checkout, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the harness: %w\n%s", err, out)
	}
	r.large = filepath.Join(w.Home, "large")
	if err := padded(small, r.large, size); err != nil {
		return nil, err
	}
	if err := w.Configure(declared("large", "[]") + declared("small", `["session"]`)); err != nil {
		return nil, err
	}
	if err := w.StartManager(ctx); err != nil {
		return nil, err
	}
	work := filepath.Join(w.Home, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	up, err := w.Up(ctx, work)
	if err != nil {
		return nil, err
	}
	r.workspace, r.pid = up.Workspace.ID, up.Status.PID
	if r.api, err = w.Client(); err != nil {
		return nil, err
	}
	for _, id := range []string{"large", "small"} {
		if _, err := r.api.Adopt(ctx, ownerapi.AdoptRequest{Harness: id, Path: filepath.Join(w.Home, id)}); err != nil {
			return nil, err
		}
	}
	return r, w.StartTray(ctx)
}

// declared is a harness of the owner's own in config.toml.
func declared(id, arguments string) string {
	return fmt.Sprintf("[harness.%s]\nversion = %q\nhome_var = \"FAKE_HOME\"\nhome_dir = \".fake\"\nsources = [\"~/.fake\"]\narguments = %s\n", id, version, arguments)
}

// padded copies a program and makes it as large as size, which no loader minds.
func padded(from, to string, size int64) error {
	in, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	defer out.Close()
	zeros := make([]byte, 1<<20)
	left := size - int64(len(in))
	if _, err := out.Write(in); err != nil {
		return err
	}
	for left > 0 {
		n, err := out.Write(zeros[:min(left, int64(len(zeros)))])
		if left -= int64(n); err != nil {
			return err
		}
	}
	return out.Close()
}

func copied(from, to string) (string, error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if err := copyProgram(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return "", err
		}
	}
	return to, nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
