package ownercli

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/messages"
)

// recentChangesOffered is how many changes completion offers.
const recentChangesOffered = 20

// complete offers real values for a flag.
func complete(c *cobra.Command, flag string, list func(ctx context.Context) ([]string, error)) {
	err := c.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		values, err := list(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist, which every test of the command sees
	}
}

// choices offers the values that a flag can have.
func choices(c *cobra.Command, flag string, values ...string) {
	complete(c, flag, func(context.Context) ([]string, error) { return values, nil })
}

func (a *App) workspaceIDs(ctx context.Context) ([]string, error) {
	page, err := a.workspaces(ctx)
	var ids []string
	for _, ws := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(ws.ID, oneLine(ws.Name+", "+ws.Path)))
	}
	return ids, err
}

func (a *App) harnessIDs(ctx context.Context) ([]string, error) {
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[ownerapi.Harness], error) {
		return c.Harnesses(ctx)
	})
	var ids []string
	for _, h := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(h.Harness, oneLine(h.Title)))
	}
	return ids, err
}

// profiles are the launch profiles of a workspace, that of the working
// directory when none is named.
func (a *App) profiles(ctx context.Context, workspace string) ([]string, error) {
	ws, err := a.workspace(ctx, workspace)
	if err != nil {
		return nil, err
	}
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.LaunchProfile], error) {
		return c.Profiles(ctx, ws.ID)
	})
	var ids []string
	for _, p := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(p.ID, oneLine(p.Name)))
	}
	return ids, err
}

func (a *App) recentChanges(ctx context.Context) ([]string, error) {
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[ownerapi.Mutation], error) {
		return c.Journal(ctx, ownerapi.JournalQuery{Limit: recentChangesOffered})
	})
	var ids []string
	for _, m := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(strconv.FormatUint(m.Seq, 10), oneLine(change(m)+" "+m.Table+" "+m.Key)))
	}
	return ids, err
}

func (a *App) toolGroups(ctx context.Context) ([]string, error) {
	page, err := a.tools(ctx)
	return groupsOf(page.Items), err
}

// groupsOf are the capability groups of tools, each once, in their order.
func groupsOf(tools []ownerapi.Tool) []string {
	var groups []string
	for _, t := range tools {
		if !slices.Contains(groups, t.Group) {
			groups = append(groups, t.Group)
		}
	}
	return groups
}
