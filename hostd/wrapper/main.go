package wrapper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Exit statuses, as of the sophia command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
)

// Main is the program: it returns the exit status. Before anything else it
// switches core files off.
func Main(args []string, in io.Reader, out, diag io.Writer) int {
	_ = secret.NoCores() // Harden insists
	fs := flag.NewFlagSet("sophia-wrapper", flag.ContinueOnError)
	fs.SetOutput(diag)
	launch := fs.String("launch", "", "the managed launch's `ID`; with --socket")
	socket := fs.String("socket", "", "`path` of the launch's envelope socket")
	url := fs.String("url", "", "`URL` of the MCP endpoint; with --bearer-file")
	file := fs.String("bearer-file", "", "`path` of a file of mode 0600 with a minted connection's bearer")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitDone
		}
		return exitUsage
	}
	managed, minted := *launch != "" && *socket != "", *url != "" && *file != ""
	if fs.NArg() > 0 || managed == minted || managed && *url+*file != "" || minted && *launch+*socket != "" {
		fmt.Fprintln(diag, "sophia-wrapper: give either --launch and --socket, or --url and --bearer-file")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	err := serve(ctx, managed, *launch, *socket, *url, *file, in, out)
	if err == nil || ctx.Err() != nil {
		return exitDone
	}
	p := problem.Of(err)
	fmt.Fprintf(diag, "sophia-wrapper: %s (%s)\n", p.Message, p.Code)
	if p.Code == "internal" {
		fmt.Fprintf(diag, "sophia-wrapper: %v\n", err)
	}
	if p.Hint != "" {
		fmt.Fprintf(diag, "  %s\n", p.Hint)
	}
	return status(p.Code)
}

func status(code string) int {
	switch code {
	case "lease_over":
		return exitDone
	case "channel_unreachable", "daemon_unreachable", "broker_gone":
		return exitUnreachable
	case "internal":
		return exitFailed
	}
	return exitRefused
}

func serve(ctx context.Context, managed bool, launch, socket, url, file string, in io.Reader, out io.Writer) error {
	var cred *Credential
	var err error
	if managed {
		cred, err = Managed(ctx, launch, socket)
	} else {
		cred, err = Minted(ctx, url, file)
	}
	if err != nil {
		return err
	}
	defer cred.Close()
	p, err := New(cred, Options{In: in, Out: out})
	if err != nil {
		return err
	}
	if !managed { // a managed credential has its work receipt
		if err := p.patiently(ctx, func() error { return p.Prove(ctx) }); err != nil {
			return err
		}
	}
	return p.Run(ctx)
}
