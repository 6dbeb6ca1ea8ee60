package ownercli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/messages/problem"
)

type agentLogs struct {
	app   *App
	lines int
}

func newAgentLogs(a *App) *cobra.Command {
	o := &agentLogs{app: a}
	c := &cobra.Command{
		Use: "logs LAUNCH", Short: "Print what an agent's terminal has shown lately, without attaching", Args: exactly("launch"),
		Long: `logs prints the last output of a running agent as plain text. It takes no attach
token and sends the agent nothing. The output is kept by the agent's own host, in
memory: with the agent it goes.`,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeLaunches(false),
	}
	c.Flags().IntVarP(&o.lines, "lines", "n", 0, "the last so many lines; 0 is all there are")
	return c
}

// logsResult is logs' JSON.
type logsResult struct {
	Launch string              `json:"launch"`
	State  messages.LeaseState `json:"state"`
	Text   string              `json:"text"` // may hold what the agent's terminal was sent; not escaped
}

func (o *agentLogs) run(ctx context.Context, launch string) error {
	if o.lines < 0 {
		return usage("--lines is 0 or more")
	}
	dirs, err := o.app.Dirs()
	if err != nil {
		return err
	}
	lease, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (messages.Lease, error) { return c.Launch(ctx, launch) })
	if err != nil {
		return err
	}
	text, err := terminal.Tail(ctx, filepath.Join(dirs.Launches(), filepath.Base(lease.Launch), "terminal.sock"))
	if problem.CodeOf(err) == "terminal_unreachable" {
		if final(lease.State) {
			return problem.Wrap(err, "terminal_unreachable", "%s has ended (%s), and its output went with it", lease.Launch, lease.State).
				WithHint("What it came to: sophia agent show %s", lease.Launch)
		}
		return problem.Wrap(err, "terminal_unreachable", "%s is %s and has no terminal yet, or no more", lease.Launch, lease.State).
			WithHint("How it stands: sophia agent show %s", lease.Launch)
	}
	if err != nil {
		return err
	}
	result := logsResult{Launch: lease.Launch, State: lease.State, Text: lastLines(string(text), o.lines)}
	return o.app.print(result, func(w io.Writer) {
		if shown := strings.TrimRight(ownertext.Plain(result.Text, true), "\n"); shown != "" {
			fmt.Fprintln(w, shown)
		} else if o.app.OutTTY {
			fmt.Fprintln(w, o.app.dim(launch+" has shown nothing yet."))
		}
	})
}

// lastLines cuts text to its last n lines; 0 leaves it.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n"), "\n")
	if n == 0 || len(lines) <= n {
		return text
	}
	return strings.Join(lines[len(lines)-n:], "") + "\n"
}
