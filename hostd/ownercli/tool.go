package ownercli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
	"sophia/messages/problem"
)

func newTool(a *App) *cobra.Command {
	return noun("tool", "Tools: what agents call, called by you", newToolList(a), newToolDescribe(a), newToolCall(a))
}

func (a *App) tools(ctx context.Context) (ownerapi.Page[ownerapi.Tool], error) {
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[ownerapi.Tool], error) {
		return c.Tools(ctx)
	})
}

func (a *App) completeTools() cobra.CompletionFunc {
	return completeIDs(a, func(ctx context.Context) ([]string, error) {
		page, err := a.tools(ctx)
		var names []string
		for _, t := range page.Items {
			names = append(names, cobra.CompletionWithDesc(t.Name, oneLine(t.Summary)))
		}
		return names, err
	})
}

type toolList struct {
	app   *App
	group string
}

func newToolList(a *App) *cobra.Command {
	o := &toolList{app: a}
	c := &cobra.Command{
		Use: "list", Short: "List tools", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().StringVar(&o.group, "group", "", "of this capability group only")
	complete(c, "group", a.toolGroups)
	return c
}

func (o *toolList) run(ctx context.Context) error {
	page, err := o.app.tools(ctx)
	if err != nil {
		return err
	}
	if o.group != "" {
		kept := []ownerapi.Tool{}
		for _, t := range page.Items {
			if t.Group == o.group {
				kept = append(kept, t)
			}
		}
		if len(kept) == 0 {
			return problem.New("usage", "there is no group %q", o.group).WithValid(groupsOf(page.Items)...)
		}
		page.Items, page.Total = kept, len(kept)
	}
	return o.app.print(page, func(w io.Writer) {
		var rows [][]string
		for _, t := range page.Items {
			rows = append(rows, []string{t.Name, t.Group, effect(t), t.Summary})
		}
		o.app.table(w, []string{"TOOL", "GROUP", "EFFECT", "WHAT IT DOES"}, rows, "No tools.")
	})
}

func effect(t ownerapi.Tool) string {
	switch {
	case t.Elevated:
		return "elevated"
	case t.Writes:
		return "writes"
	}
	return "reads"
}

type toolDescribe struct{ app *App }

func newToolDescribe(a *App) *cobra.Command {
	o := &toolDescribe{app: a}
	return &cobra.Command{
		Use: "describe TOOL", Short: "Show a tool and its arguments", Args: exactly("tool"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeTools(),
	}
}

func (o *toolDescribe) run(ctx context.Context, name string) error {
	t, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Tool, error) { return c.Tool(ctx, name) })
	if err != nil {
		return err
	}
	return o.app.print(t, func(w io.Writer) {
		fmt.Fprintf(w, "%s  %s\n", o.app.bold(oneLine(t.Name)), o.app.dim(t.Group+", "+effect(t)))
		for _, text := range []string{t.Summary, t.Description} {
			if text != "" {
				fmt.Fprintf(w, "\n%s\n", ownertext.Plain(text, true))
			}
		}
		if len(t.Input) > 0 {
			fmt.Fprintf(w, "\n%s\n%s\n", o.app.dim("arguments"), ownertext.Plain(ownertext.Indented(t.Input), true))
		}
	})
}

type toolCall struct{ app *App }

func newToolCall(a *App) *cobra.Command {
	o := &toolCall{app: a}
	return &cobra.Command{
		Use: "call TOOL [ARGUMENTS | KEY=VALUE…]", Short: "Call a tool with your own authority", Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misused(c, "tool call needs TOOL")
			}
			return nil
		},
		Example: `  sophia tool call sophia.orient goal="see what is new"
  sophia tool call sophia.search_documents '{"query":"launch","limit":3}'
  sophia tool call sophia.execute_code @snippet.json`,
		Long: `call takes the arguments as one JSON object, as @FILE (- is standard input), or
as KEY=VALUE pairs: a value that is JSON is taken as such, else as text.`,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1:]) },
		ValidArgsFunction: a.completeTools(),
	}
}

func (o *toolCall) run(ctx context.Context, name string, args []string) error {
	arguments, err := o.app.arguments(args)
	if err != nil {
		return err
	}
	result, err := gated(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (json.RawMessage, error) {
		return c.CallTool(ctx, name, arguments)
	})
	if err != nil {
		return err
	}
	return o.app.print(result, func(w io.Writer) { fmt.Fprintln(w, ownertext.Plain(ownertext.Indented(result), true)) })
}

// arguments makes one JSON object of a command line's rest.
func (a *App) arguments(args []string) (json.RawMessage, error) {
	switch {
	case len(args) == 0:
		return json.RawMessage("{}"), nil
	case len(args) == 1 && strings.HasPrefix(args[0], "@"):
		text, err := a.readArgument(args[0][1:])
		if err != nil {
			return nil, err
		}
		return object(text)
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		return object([]byte(args[0]))
	}
	values := map[string]json.RawMessage{}
	for _, pair := range args {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return nil, usage("%q is neither a JSON object nor KEY=VALUE", pair)
		}
		if _, twice := values[key]; twice {
			return nil, usage("%q is given twice", key)
		}
		if json.Valid([]byte(value)) {
			values[key] = json.RawMessage(value)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		values[key] = text
	}
	return json.Marshal(values)
}

func (a *App) readArgument(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.In)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("the arguments can't be read: %v", err)
	}
	return text, nil
}

func object(text []byte) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return nil, usage("the arguments are not one JSON object")
	}
	return text, nil
}
