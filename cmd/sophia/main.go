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
	told := make(chan os.Signal, 1)
	signal.Notify(told, ends...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-told
		signal.Stop(told) // a second one does not wait for what the first begins
		cancel()
	}()
	return ownercli.Run(ctx, app, os.Args[1:])
}
