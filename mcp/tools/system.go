package tools

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"

	"sophia/mcp/registry"
	"sophia/mcp/tsdecl"
	"sophia/messages/problem"
)

type catalogIn struct {
	Brief bool   `json:"brief,omitempty" jsonschema:"names only"`
	Group string `json:"group,omitempty" jsonschema:"only this capability group"`
}

type catalogOut struct {
	TotalTools int            `json:"total_tools" jsonschema:"that this connection can call, directly or in a script"`
	Version    string         `json:"version" jsonschema:"changes when and only when what you can call changes"`
	Groups     []catalogGroup `json:"groups"`
}

type catalogGroup struct {
	Group string        `json:"group"`
	Count int           `json:"count"`
	Names []string      `json:"names,omitempty" jsonschema:"with brief"`
	Tools []catalogTool `json:"tools,omitempty"`
}

type catalogTool struct {
	Name     string `json:"name"`
	Method   string `json:"method" jsonschema:"inside execute_code: sophia.<method>(args)"`
	Summary  string `json:"summary"`
	Writes   bool   `json:"writes"`
	Approval bool   `json:"approval" jsonschema:"each call waits for the owner"`
	Where    string `json:"where" enum:"direct,script,both"`
}

type typesIn struct {
	Tools   []string `json:"tools,omitempty" jsonschema:"only these; leave out for all"`
	Group   string   `json:"group,omitempty" jsonschema:"only this capability group"`
	Schemas *bool    `json:"schemas,omitempty" jsonschema:"false leaves the JSON schemas out" default:"true"`
}

type typesOut struct {
	Version      string                 `json:"version" jsonschema:"as in capability_catalog"`
	Methods      []typesMethod          `json:"methods"`
	Schemas      map[string]typesSchema `json:"schemas" jsonschema:"by canonical tool name"`
	Declarations string                 `json:"declarations" jsonschema:"TypeScript; compiles under --strict"`
}

type typesMethod struct {
	Name    string `json:"name"`
	Tool    string `json:"tool"`
	Summary string `json:"summary"`
}

type typesSchema struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
}

// System are the tools that describe the surface.
func System() []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{
			Name: "capability_catalog", Group: registry.System, Scope: registry.Unscoped, Core: true, Code: true,
			Summary:     "List every tool that you can call, by group",
			Description: "Cheap: call it at the start of a session instead of trusting a list from elsewhere. `where` says whether a tool is called directly, inside execute_code, or both.",
		}, func(_ context.Context, c *registry.Call, in catalogIn) (catalogOut, error) { return catalog(c, in) }),
		registry.Define(registry.Spec{
			Name: "get_sdk_types", Group: registry.System, Scope: registry.Unscoped, Core: true, Code: true, DirectOnly: true,
			Summary:     "Get TypeScript types of the sophia.* SDK",
			Description: "Declarations of what a script in execute_code can call. Ask for the tools that you will use: the whole surface is long. A direct call only: inside a script the methods are already there.",
		}, func(_ context.Context, c *registry.Call, in typesIn) (typesOut, error) { return sdkTypes(c, in) }),
	}
}

// reachable are the tools of a caller, wherever it may call them from.
func reachable(c *registry.Call) []*registry.Tool {
	var out []*registry.Tool
	within := c.Within.Tools()
	for _, t := range c.Direct.Tools() { // both are in catalog order
		for len(within) > 0 && within[0] != t && !c.Direct.Has(within[0].Name) {
			out, within = append(out, within[0]), within[1:]
		}
		if len(within) > 0 && within[0] == t {
			within = within[1:]
		}
		out = append(out, t)
	}
	return append(out, within...)
}

// surfaceVersion names what a caller can call, directly and within scripts.
func surfaceVersion(c *registry.Call) string { return c.Direct.Version() + "-" + c.Within.Version() }

func checkGroup(name string) error {
	if name == "" {
		return nil
	}
	var valid []string
	for _, g := range registry.Groups() {
		if string(g) == name {
			return nil
		}
		valid = append(valid, string(g))
	}
	return problem.New("unknown_group", "there is no capability group %q", name).WithValid(valid...).WithHint("Leave it out for all groups.")
}

func catalog(c *registry.Call, in catalogIn) (catalogOut, error) {
	if err := checkGroup(in.Group); err != nil {
		return catalogOut{}, err
	}
	all := reachable(c)
	out := catalogOut{TotalTools: len(all), Version: surfaceVersion(c)}
	at := map[registry.Group]int{}
	for _, t := range all {
		if in.Group != "" && string(t.Group) != in.Group {
			continue
		}
		i, ok := at[t.Group]
		if !ok {
			i = len(out.Groups)
			at[t.Group] = i
			out.Groups = append(out.Groups, catalogGroup{Group: string(t.Group)})
		}
		g := &out.Groups[i]
		g.Count++
		if in.Brief {
			g.Names = append(g.Names, t.Canonical)
			continue
		}
		where := "both"
		switch {
		case !c.Within.Has(t.Name):
			where = "direct"
		case !c.Direct.Has(t.Name):
			where = "script"
		}
		g.Tools = append(g.Tools, catalogTool{t.Canonical, t.Method, t.Summary, len(t.Effects.Writes) > 0, registry.Asks(c.Authority, t), where})
	}
	return out, nil
}

func sdkTypes(c *registry.Call, in typesIn) (typesOut, error) {
	if err := checkGroup(in.Group); err != nil {
		return typesOut{}, err
	}
	wanted := map[*registry.Tool]bool{}
	for _, name := range in.Tools {
		t, err := c.Within.Find(name)
		if err != nil {
			return typesOut{}, err
		}
		wanted[t] = true
	}
	out := typesOut{Version: surfaceVersion(c), Schemas: map[string]typesSchema{}}
	var methods []tsdecl.Method
	for _, t := range c.Within.Tools() {
		if len(wanted) > 0 && !wanted[t] || in.Group != "" && string(t.Group) != in.Group {
			continue
		}
		out.Methods = append(out.Methods, typesMethod{t.Method, t.Canonical, t.Summary})
		methods = append(methods, Declared(t))
		if in.Schemas == nil || *in.Schemas {
			input, err := json.Marshal(t.Input.Schema)
			if err != nil {
				return out, err
			}
			output, err := json.Marshal(t.PublishedOutput())
			if err != nil {
				return out, err
			}
			out.Schemas[t.Canonical] = typesSchema{input, output}
		}
	}
	out.Declarations = tsdecl.Declarations(methods)
	return out, nil
}

// Declared is a tool as a method for TypeScript.
func Declared(t *registry.Tool) tsdecl.Method {
	names := maps.Clone(t.Input.Names)
	maps.Copy(names, t.Output.Names)
	delete(names, t.Input.Schema) // these are named after the method
	delete(names, t.Output.Schema)
	var in *jsonschema.Schema
	if len(t.Input.Schema.Properties) > 0 {
		in = t.Input.Schema
	}
	about := t.Summary + ". " + t.Description
	return tsdecl.Method{Name: t.Method, About: about, Input: in, Output: t.Output.Schema, Names: names, List: t.List()}
}
