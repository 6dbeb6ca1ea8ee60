// Command sophiad is the daemon: the actor tree, and the listeners for MCP, the
// owner's programs and the wrappers of managed launches. It takes no arguments;
// SOPHIA_HOME or the XDG variables say where its folders are, config.toml in
// the configuration folder what the owner has set.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/paths"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// version is set when a release is built.
var version = "dev"

func main() {
	if len(os.Args) > 1 {
		if os.Args[1] == "--version" {
			fmt.Println("sophiad", version)
			return
		}
		fmt.Fprintln(os.Stderr, "sophiad takes no arguments. Start it with: sophia up")
		os.Exit(2)
	}
	if err := start(); err != nil {
		p := problem.Of(err)
		fmt.Fprintf(os.Stderr, "sophiad: %v\n", err)
		if p.Hint != "" {
			fmt.Fprintln(os.Stderr, p.Hint)
		}
		os.Exit(1)
	}
}

func start() error {
	unix.Umask(0o077)
	// What whoever started the daemon left open must not reach its children.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// The bearers of launches pass through this process: no core file has them.
	if err := secret.NoCores(); err != nil {
		return err
	}
	dirs, err := paths.Resolve(os.Getenv)
	if err != nil {
		return err
	}
	if err := dirs.Make(); err != nil {
		return err
	}
	f, err := os.OpenFile(dirs.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	log := slog.New(slog.NewTextHandler(f, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d, err := open(ctx, dirs, log)
	if err != nil {
		log.Error("not started", "err", err)
		return err
	}
	log.Info("ready", "mcp", d.address.MCP, "pid", os.Getpid())
	select {
	case <-ctx.Done():
		log.Info("stopping")
		d.endLaunches()
	case err = <-d.fatal:
	case <-d.tree.Done():
		err = problem.Wrap(d.tree.Err(), "supervision_gave_up", "the supervision tree gave up")
	}
	if err != nil {
		log.Error("can't go on", "err", err)
	}
	// The store's engine tries for ever to flush to a full disk. What was
	// acknowledged is on disk already, so leaving it is safe and a kill -9 is
	// what it is made for.
	late := time.AfterFunc(stopBound+closeBound, func() {
		log.Error("the stop took too long; leaving without it")
		os.Exit(1)
	})
	defer late.Stop()
	return errors.Join(err, d.close())
}
