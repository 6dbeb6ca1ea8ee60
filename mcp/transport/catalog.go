package transport

import (
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/messages"
)

// catalog has the MCP tools of each set of callable tools, in both spellings.
// What a connection lists depends on its authority alone.
type catalog struct {
	d    *dispatch.Dispatcher
	made sync.Map // catalogKey → map[string]server.ServerTool
}

type catalogKey struct {
	set        *registry.Set
	underscore bool
}

func newCatalog(d *dispatch.Dispatcher) *catalog { return &catalog{d: d} }

func (c *catalog) list(a messages.Authority) map[string]server.ServerTool {
	k := catalogKey{c.d.Callable(a, false), a.ToolNames == messages.UnderscoreNames}
	if m, ok := c.made.Load(k); ok {
		return m.(map[string]server.ServerTool)
	}
	m := map[string]server.ServerTool{}
	for _, t := range k.set.Tools() {
		tool := MCPTool(t, k.underscore)
		m[tool.Name] = server.ServerTool{Tool: tool}
	}
	if len(m) > 0 { // what an unknown profile sees is made anew each time
		c.made.Store(k, m)
	}
	return m
}

// MCPTool is a tool as tools/list shows it.
func MCPTool(t *registry.Tool, underscore bool) mcp.Tool {
	name := t.Canonical
	if underscore {
		name = registry.Underscored(name)
	}
	in, _ := json.Marshal(t.Input.Schema) // New has checked that both can be
	out, _ := json.Marshal(t.PublishedOutput())
	about := t.Summary + ". " + t.Description
	if t.Effects.Elevated {
		about += " The owner approves each call."
	}
	readOnly, idempotent := t.ReadOnly(), t.Idempotent || t.ReadOnly()
	return mcp.Tool{
		Name: name, Title: t.Title, Description: about, RawInputSchema: in, RawOutputSchema: out,
		Annotations: mcp.ToolAnnotation{ReadOnlyHint: &readOnly, DestructiveHint: &t.Destructive, IdempotentHint: &idempotent, OpenWorldHint: &t.OpenWorld},
	}
}
