package ownercli

import (
	"context"
	"os"
	"runtime"

	"sophia/hostd/terminal"
	"sophia/hostd/unit"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// attachTerminal is the Attacher of a real terminal.
func attachTerminal(ctx context.Context, a *App, launch, socket string, token *secret.Secret) (over bool, err error) {
	in, isFile := a.In.(*os.File)
	out, alsoFile := a.Out.(*os.File)
	if !isFile || !alsoFile {
		return false, problem.New("usage", "attaching needs a terminal")
	}
	// A key is little work: waking a second thread for it would take longer.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	systemd := unit.New(a.Getenv)
	defer systemd.Close()
	ending, err := terminal.Viewer{
		Socket: socket, In: in, Out: out,
		Host: func(ctx context.Context) (int, error) { return systemd.MainPID(ctx, unit.Name(launch)) },
	}.Attach(ctx, token)
	if err == nil && ending.Detached {
		_, err = out.WriteString("\x1b[J") // what the agent drew below the cursor stays with the agent
	}
	return err == nil && !ending.Detached, err
}
