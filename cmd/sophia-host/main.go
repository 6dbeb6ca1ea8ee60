// Command sophia-host is what a launch's systemd unit executes:
//
//	sophia-host <manifest> <SHA-256 of the manifest>
//
// It is not for people: the daemon writes the manifest, and a manifest is good
// for one start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"sophia/hostd/host"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sophia-host <manifest> <digest>\nStarted by the daemon for each launch; see: sophia agent start")
		os.Exit(64)
	}
	// systemd sends SIGTERM to the whole control group. The harness ends by it;
	// the host stays until it has read the last output.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := host.Host{
		Log: os.Stderr, Now: time.Now,
		// Relaying is a little work at a time: waking a second thread for it would
		// take longer than doing it.
		Verified: func() { runtime.GOMAXPROCS(1) },
	}.Run(ctx, os.Args[1], os.Args[2])
	stop()
	os.Exit(code)
}
