// Command sophia-tray shows what waits for the owner and carries the answer.
// Its SHA-256 is its identity: the daemon takes answers from this program only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sophia/hostd/ownertext"
	"sophia/hostd/ownertray"
	"sophia/hostd/paths"
	"sophia/messages/problem"
)

func main() { os.Exit(run()) }

func run() int {
	flag.Bool("terminal", true, "show it in this terminal, which is the only place there is")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "sophia-tray shows what waits for you and carries your answer. It takes no arguments; run it in a terminal where you logged in.")
	}
	flag.Parse()
	err := show(flag.Args())
	if err == nil {
		return ownertext.ExitDone
	}
	p := problem.Of(err)
	fmt.Fprintf(os.Stderr, "sophia-tray: %s\n", p.Message)
	if p.Hint != "" {
		fmt.Fprintf(os.Stderr, "  %s\n", p.Hint)
	}
	fmt.Fprintf(os.Stderr, "  (%s)\n", p.Code)
	return ownertext.ExitCode(err)
}

func show(rest []string) error {
	if len(rest) > 0 {
		return problem.New("usage", "it takes no %q", rest[0])
	}
	dirs, err := paths.Resolve(os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return ownertray.Run(ctx, ownertray.Options{In: os.Stdin, Out: os.Stdout, Dirs: dirs, Getenv: os.Getenv})
}
