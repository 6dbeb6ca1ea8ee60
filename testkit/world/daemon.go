package world

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	"sophia/store"
	"sophia/store/tables"
)

// UpResult is what `sophia up --json` says, as far as it is used here.
type UpResult struct {
	Status struct {
		PID  int    `json:"pid"`
		MCP  string `json:"mcp"`
		Unit string `json:"unit"`
	} `json:"status"`
	Workspace struct {
		ID        string `json:"id"`
		Documents int    `json:"documents"`
		Symbols   int    `json:"symbols"`
	} `json:"workspace"`
	Already bool `json:"already_running"`
}

// Up runs `sophia up` and, with a path, registers it as a workspace.
func (w *World) Up(ctx context.Context, workspace string) (r UpResult, err error) {
	args := []string{"up"}
	if workspace != "" {
		args = append(args, "--workspace", workspace)
	}
	return r, w.Sophia(ctx, &r, args...)
}

// owner is the owner's key, loaded once.
type owner struct {
	sync.Mutex
	key    *ownerkey.Key
	client *ownerapi.Client
}

// Client is the owner API, as the CLI uses it. It outlives restarts of the daemon.
func (w *World) Client() (*ownerapi.Client, error) {
	w.owner.Lock()
	defer w.owner.Unlock()
	if w.owner.client != nil {
		return w.owner.client, nil
	}
	key, err := ownerkey.Load(w.Dirs().OwnerKey())
	if err != nil {
		return nil, err
	}
	c, err := ownerapi.NewClient(w.Dirs().OwnerSocket(), key)
	if err != nil {
		key.Close()
		return nil, err
	}
	w.owner.key, w.owner.client = key, c
	return c, nil
}

func (w *World) forget() {
	w.owner.Lock()
	defer w.owner.Unlock()
	if w.owner.client != nil {
		w.owner.client.Close()
		w.owner.key.Close()
	}
}

// Kill sends SIGKILL and waits for the process's end.
func Kill(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return gone(ctx, fd)
}

// Gone waits for the end of a process.
func Gone(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	return gone(ctx, fd)
}

// look is how long one poll of a process lasts before the context is asked, in
// milliseconds.
const look = 50

func gone(ctx context.Context, fd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, look)
		switch {
		case err != nil && err != unix.EINTR:
			return err
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// VerifyStore opens the store of a daemon that does not run, and looks at every
// row, index entry and journal link.
func (w *World) VerifyStore() (store.Report, error) {
	d := w.Dirs()
	db, err := store.Open(store.Options{Dir: d.Store(), HighWater: d.HighWater(), Tables: tables.All()})
	if err != nil {
		return store.Report{}, err
	}
	r, err := db.Verify()
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return r, err
}
