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
your presence, in sophia-tray.

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
	root.Version = a.Version
	root.SetVersionTemplate("sophia {{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "print one JSON value of a stable shape")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused(c, "%v", err) })
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(
		newUp(a), newDown(a), newStatus(a), newDoctor(a),
		newConnection(a), newConnect(a), newDisconnect(a),
		newAgent(a), newWorkspace(a), newHarness(a),
		newApproval(a), newJournal(a), newTool(a),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		noNounAlone(c)
	}
	return root
}

// newHelp is cobra's help command, which says nothing of a topic that is none.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return problem.New("usage", "there is no command %q", strings.Join(args, " ")).
					WithValid(root.SuggestionsFor(args[0])...).WithHint("See: sophia --help")
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
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
	c.Args = cobra.ArbitraryArgs // so that RunE can say which verb was meant
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return misused(c, "%s has no verb %q", c.Name(), args[0]).WithValid(verbs...)
		}
		return misused(c, "%s needs a verb", c.Name()).WithValid(verbs...)
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

// called is a command's name without the program's.
func called(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// misused is a wrong command line of c.
func misused(c *cobra.Command, format string, args ...any) *problem.Error {
	return problem.New("usage", format, args...).WithHint("See: %s --help", c.CommandPath())
}

// exactly is cobra.ExactArgs with the names of what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misused(cmd, "%s needs %s", called(cmd), strings.ToUpper(names[len(args)]))
		case len(args) > len(names):
			return misused(cmd, "%s takes no %q", called(cmd), args[len(names)])
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
