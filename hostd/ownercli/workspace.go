package ownercli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
)

func newWorkspace(a *App) *cobra.Command {
	return noun("workspace", "Workspaces: checkouts that agents read and work in", newWorkspaceAdd(a), newWorkspaceList(a))
}

type workspaceAdd struct {
	app  *App
	name string
}

func newWorkspaceAdd(a *App) *cobra.Command {
	o := &workspaceAdd{app: a}
	c := &cobra.Command{
		Use: "add [FOLDER]", Short: "Register a checkout and read its documents and code", Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly("folder")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), append(args, a.Dir)[0]) },
	}
	c.Flags().StringVar(&o.name, "name", "", "how it is shown; the folder's name when not given")
	return c
}

func (o *workspaceAdd) run(ctx context.Context, folder string) error {
	added, err := o.app.addWorkspace(ctx, folder, o.name)
	if err != nil {
		return err
	}
	return o.app.print(added, func(w io.Writer) { fmt.Fprintln(w, addedText(added)) })
}

func (a *App) addWorkspace(ctx context.Context, folder, name string) (ownerapi.AddedWorkspace, error) {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(a.Dir, folder)
	}
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.AddedWorkspace, error) {
		return c.AddWorkspace(ctx, ownerapi.AddWorkspace{Path: folder, Name: name})
	})
}

func addedText(added ownerapi.AddedWorkspace) string {
	verb := "read again"
	if added.New {
		verb = "added"
	}
	return fmt.Sprintf("%s (%s) %s: %s, %s, %s.", oneLine(added.Name), added.ID, verb,
		counted(added.Documents, "document"), counted(added.Modules, "code module"), counted(added.Symbols, "symbol"))
}

type workspaceList struct{ app *App }

func newWorkspaceList(a *App) *cobra.Command {
	o := &workspaceList{app: a}
	return &cobra.Command{
		Use: "list", Short: "List workspaces", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
}

func (o *workspaceList) run(ctx context.Context) error {
	page, err := o.app.workspaces(ctx)
	if err != nil {
		return err
	}
	return o.app.print(page, func(w io.Writer) {
		var rows [][]string
		for _, ws := range page.Items {
			rows = append(rows, []string{ws.ID, ws.Name, ws.Path, ago(ws.Created, o.app.now())})
		}
		o.app.table(w, []string{"WORKSPACE", "NAME", "FOLDER", "ADDED"}, rows, "No workspaces yet. Register a checkout with: sophia workspace add")
	})
}

func (a *App) workspaces(ctx context.Context) (ownerapi.Page[messages.Workspace], error) {
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.Workspace], error) {
		return c.Workspaces(ctx)
	})
}

// workspace is the one that was named, by id or name, else the innermost one
// that holds the working directory.
func (a *App) workspace(ctx context.Context, named string) (messages.Workspace, error) {
	page, err := a.workspaces(ctx)
	if err != nil {
		return messages.Workspace{}, err
	}
	var ids []string
	for _, ws := range page.Items {
		if named != "" && (ws.ID == named || ws.Name == named) {
			return ws, nil
		}
		ids = append(ids, ws.ID)
	}
	if named != "" {
		return messages.Workspace{}, problem.New("workspace_not_found", "there is no workspace %q", named).WithValid(ids...).
			WithHint("Register a checkout with: sophia workspace add")
	}
	here, err := filepath.EvalSymlinks(a.Dir)
	if err != nil {
		return messages.Workspace{}, problem.Wrap(err, "folder_not_read", "the working directory can't be resolved")
	}
	var best messages.Workspace
	for _, ws := range page.Items {
		if holds(ws.Path, here) && len(ws.Path) > len(best.Path) {
			best = ws
		}
	}
	if best.ID == "" {
		return best, problem.New("workspace_not_found", "%s is in no registered workspace", here).
			WithHint("Register it with: sophia workspace add")
	}
	return best, nil
}

func holds(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
