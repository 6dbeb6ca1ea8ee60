package ownercli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"sophia/hostd/ownertext"
	"sophia/messages/problem"
)

// Command is the whole command tree.
func Command(a *App) *cobra.Command {
	root := &cobra.Command{
		Use:   "sophia",
		Short: "Your agents' state, and the agents you launch",
		Long: `sophia starts and stops the daemon, connects agents to it, launches managed
agents, and shows what they did. Approving is not among its commands: that takes
your presence, in the tray, the portal, or sophia-tray --terminal.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused, 4 daemon not reachable, 5 timed out.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that RunE can say which noun was meant
	}
	root.SuggestionsMinimumDistance = 2 // letters
	root.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		p := problem.New("usage", "unknown command %q", args[0]).WithHint("See: sophia --help")
		return p.WithValid(c.SuggestionsFor(args[0])...)
	}
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print one JSON value of a stable shape")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(
		newUp(a), newDown(a), newStatus(a), newDoctor(a),
		newConnection(a), newConnect(a), newDisconnect(a),
		newAgent(a), newWorkspace(a), newHarness(a),
		newApproval(a), newJournal(a), newTool(a),
	)
	for _, c := range root.Commands() {
		noNounAlone(c)
	}
	return root
}

// noNounAlone makes a noun without a verb, or with a wrong one, a usage error
// that names the verbs.
func noNounAlone(c *cobra.Command) {
	if !c.HasSubCommands() {
		return
	}
	var verbs []string
	for _, sub := range c.Commands() {
		verbs = append(verbs, sub.Name())
		noNounAlone(sub)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p := problem.New("usage", "sophia %s needs a verb", c.Name())
		if len(args) > 0 {
			p = problem.New("usage", "sophia %s has no verb %q", c.Name(), args[0])
		}
		return p.WithValid(verbs...).WithHint("See: sophia %s --help", c.Name())
	}
}

// Run runs one command line and returns the exit code.
func Run(ctx context.Context, a *App, args []string) int {
	defer a.Close()
	root := Command(a)
	root.SetArgs(args)
	// A line that can't be parsed is answered in JSON too.
	for _, arg := range args {
		if arg == "--" {
			break
		}
		a.JSON = a.JSON || arg == "--json"
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ownertext.ExitDone
	}
	if errors.Is(err, errShown) {
		return ownertext.ExitFailed
	}
	if problem.CodeOf(err) == "" && isUsage(err) {
		err = usage("%v", err)
	}
	a.PrintError(err)
	return ownertext.ExitCode(err)
}

// isUsage knows cobra's own complaints, which have no type.
func isUsage(err error) bool {
	text := err.Error()
	for _, start := range []string{"unknown command", "accepts ", "requires ", "unknown flag", "unknown shorthand", "required flag", "invalid argument", "if any flags in the group"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// noun is a command that only holds verbs.
func noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(verbs...)
	return c
}

// exactly is cobra.ExactArgs with the names of what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s needs %s", cmd.CommandPath(), strings.ToUpper(names[len(args)]))
		case len(args) > len(names):
			return usage("%s takes no %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// completeIDs offers real ids for the first argument.
func completeIDs(a *App, list func(ctx context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ids, err := list(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
