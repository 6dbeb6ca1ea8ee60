// Command sophia is the owner's CLI. Its commands are in hostd/ownercli.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sophia/hostd/ownercli"
	"sophia/hostd/ownertext"
)

// version is set at the build: -ldflags "-X main.version=…".
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	app, err := ownercli.NewApp()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sophia:", err)
		return ownertext.ExitFailed
	}
	app.Version = version
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	return ownercli.Run(ctx, app, os.Args[1:])
}
