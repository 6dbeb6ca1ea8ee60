// Command demo shows Sophia's two jobs on this machine, for real, in about a
// minute: a private systemd user manager, the daemon as its service, agents'
// calls over MCP, the owner's answers on a terminal, and a managed launch of
// the real Codex against a model API on loopback. It ends with a summary whose
// numbers were counted on the way; --json prints that alone.
//
//	world.go    what it runs in: package world, and the model
//	surface.go  the first job: reads composed, a write approved, journaled, reverted
//	launch.go   the second job: Codex launched, working, attached to, stopped
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// bound is how long the whole demo may take.
const bound = 5 * time.Minute

func main() {
	asJSON := flag.Bool("json", false, "print the summary as one JSON value and nothing else")
	keep := flag.Bool("keep", false, "leave the demo's folder behind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	say := io.Writer(os.Stdout)
	if *asJSON {
		say = os.Stderr
	}
	s, err := run(ctx, say, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			os.Exit(1)
		}
		return
	}
	s.print(os.Stdout)
}

func run(ctx context.Context, say io.Writer, keep bool) (s summary, err error) {
	begun := time.Now()
	d, err := newDemo(ctx, say)
	if err != nil {
		return s, err
	}
	defer func() {
		if closeErr := d.close(keep); err == nil {
			err = closeErr
		}
	}()
	if err := d.up(ctx, &s); err != nil {
		return s, err
	}
	if err := d.showSurface(ctx, &s); err != nil {
		return s, fmt.Errorf("the surface: %w", err)
	}
	if err := d.showLaunch(ctx, &s); err != nil {
		return s, fmt.Errorf("the launch: %w", err)
	}
	s.Seconds = time.Since(begun).Seconds()
	return s, nil
}
