package ownercli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/messages"
)

func newConnection(a *App) *cobra.Command {
	return noun("connection", "Connections: who may call, and what", newConnectionMint(a), newConnectionList(a), newConnectionRevoke(a))
}

// presenceNote is what both ways to a connection say about approving it.
const presenceNote = `A connection of profile full, and one that may write in every scope (*), waits for
your approval in the tray: a key in a file does not prove that you are there. One
of profile observer, or of profile assistant in scopes that you name, does not.`

// authority is the flags that say what a connection may do.
type authority struct {
	profile, surface, toolNames string
	scope                       []string
	ttl                         time.Duration
}

func (o *authority) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.profile, "profile", string(messages.Assistant), "observer (no writes), assistant (an approval for each write), full (pre-approved but for elevated tools)")
	f.StringVar(&o.surface, "surface", string(messages.SurfaceCore), "tools it lists: core, full, code")
	f.StringSliceVar(&o.scope, "scope", []string{"*"}, "entities it sees, comma-separated; * is all")
	f.StringVar(&o.toolNames, "tool-names", messages.DottedNames, "spelling of tool names: dotted, underscore")
	f.DurationVar(&o.ttl, "ttl", 0, "how long it lasts, as 12h; 0 until revoked")
	choices(c, "profile", string(messages.Observer), string(messages.Assistant), string(messages.Full))
	choices(c, "surface", string(messages.SurfaceCore), string(messages.SurfaceFull), string(messages.SurfaceCode))
	choices(c, "tool-names", messages.DottedNames, messages.UnderscoreNames)
}

func (o *authority) request(name string) ownerapi.MintRequest {
	return ownerapi.MintRequest{
		Name: name, Profile: messages.Profile(o.profile), Surface: messages.Surface(o.surface),
		Scope: o.scope, ToolNames: o.toolNames, TTL: int(o.ttl / time.Second),
	}
}

type connectionMint struct {
	app *App
	authority
}

func newConnectionMint(a *App) *cobra.Command {
	o := &connectionMint{app: a}
	c := &cobra.Command{
		Use: "mint NAME", Short: "Mint a connection; its bearer goes to a private file", Args: exactly("name"),
		Long: `mint makes a connection and puts its bearer into a file of mode 0600.

` + presenceNote,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.flags(c)
	return c
}

func (o *connectionMint) run(ctx context.Context, name string) error {
	minted, err := gated(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Minted, error) {
		return c.Mint(ctx, o.request(name))
	})
	if err != nil {
		return err
	}
	return o.app.print(minted, func(w io.Writer) {
		o.app.fields(w, [][2]string{
			{"connection", minted.Connection}, {"name", minted.Name},
			{"profile", string(minted.Profile)}, {"surface", string(minted.Surface)}, {"scope", scopeText(minted.Scope)},
			{"mcp", minted.MCP}, {"bearer", minted.BearerFile},
		})
	})
}

type connectionList struct {
	app *App
	all bool
}

func newConnectionList(a *App) *cobra.Command {
	o := &connectionList{app: a}
	c := &cobra.Command{
		Use: "list", Short: "List connections", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "revoked ones too")
	return c
}

func (o *connectionList) run(ctx context.Context) error {
	page, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.ConnectionRow], error) {
		return c.Connections(ctx)
	})
	if err != nil {
		return err
	}
	kept := []messages.ConnectionRow{}
	for _, row := range page.Items {
		if o.all || row.Revoked == nil {
			kept = append(kept, row)
		}
	}
	empty := "No connections yet. Connect an agent with: sophia connect codex (or claude-code, cursor, generic)"
	if hidden := len(page.Items) - len(kept); hidden > 0 {
		empty = fmt.Sprintf("No connections; %d are revoked, see: sophia connection list --all", hidden)
	}
	page.Items, page.Total = kept, len(kept)
	return o.app.print(page, func(w io.Writer) {
		var rows [][]string
		for _, c := range page.Items {
			rows = append(rows, []string{c.Connection, c.Name, string(c.Profile), string(c.Surface), scopeText(c.Scope), connectionState(c, o.app.now())})
		}
		o.app.table(w, []string{"CONNECTION", "NAME", "PROFILE", "SURFACE", "SCOPE", "STATE"}, rows, empty)
	})
}

func connectionState(c messages.ConnectionRow, now time.Time) string {
	switch {
	case c.Revoked != nil:
		return "revoked " + ago(*c.Revoked, now)
	case c.Expires != nil && now.After(*c.Expires):
		return "expired " + ago(*c.Expires, now)
	case c.Launch != "":
		return "of " + c.Launch
	case c.Expires != nil:
		return "expires " + ago(*c.Expires, now)
	}
	return "minted " + ago(c.Created, now)
}

func scopeText(scope []string) string {
	if len(scope) == 0 {
		return "(nothing)"
	}
	return strings.Join(scope, ",")
}

type connectionRevoke struct{ app *App }

func newConnectionRevoke(a *App) *cobra.Command {
	o := &connectionRevoke{app: a}
	return &cobra.Command{
		Use: "revoke CONNECTION", Short: "Revoke a connection; its bearer fails on the next call", Args: exactly("connection"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: completeIDs(a, a.livingConnections),
	}
}

// livingConnections are the ids of connections that are not revoked, for
// completion.
func (a *App) livingConnections(ctx context.Context) ([]string, error) {
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.ConnectionRow], error) {
		return c.Connections(ctx)
	})
	var ids []string
	for _, row := range page.Items {
		if row.Revoked == nil {
			ids = append(ids, cobra.CompletionWithDesc(row.Connection, oneLine(row.Name)))
		}
	}
	return ids, err
}

func (o *connectionRevoke) run(ctx context.Context, id string) error {
	row, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (messages.ConnectionRow, error) {
		return c.Revoke(ctx, id)
	})
	if err != nil {
		return err
	}
	return o.app.print(row, func(w io.Writer) {
		io.WriteString(w, oneLine(row.Connection+" ("+row.Name+") is revoked.")+"\n")
	})
}
