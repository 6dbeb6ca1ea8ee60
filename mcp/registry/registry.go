package registry

import (
	"errors"
	"fmt"
	"sync"

	"sophia/mcp/nearest"
	"sophia/messages/problem"
)

// CodeUnknownTool is the code of the error for a name that is no tool, or none
// that this caller may call: the two look the same.
const CodeUnknownTool = "unknown_tool"

// Registry is the set of all tools, in the order of the groups.
type Registry struct {
	tools  []*Tool
	byName map[string]*Tool // without the prefix
	sets   sync.Map         // class → *Set
}

// New puts tools together. It fails on a wrong declaration, on two tools with
// one name, and on two that would have the same SDK method.
func New(tools ...Tool) (*Registry, error) {
	r := &Registry{byName: map[string]*Tool{}}
	methods := map[string]string{}
	var errs []error
	for _, g := range Groups() {
		for i := range tools {
			t := tools[i]
			if t.Group != g {
				continue
			}
			if t.err != nil {
				errs = append(errs, fmt.Errorf("tool %s: %w", t.Name, t.err))
				continue
			}
			if r.byName[t.Name] != nil {
				errs = append(errs, fmt.Errorf("tool %s is declared twice", t.Name))
				continue
			}
			if other, taken := methods[t.Method]; taken {
				errs = append(errs, fmt.Errorf("tools %s and %s would both be the SDK method %s", other, t.Name, t.Method))
				continue
			}
			methods[t.Method] = t.Name
			r.byName[t.Name] = &t
			r.tools = append(r.tools, &t)
		}
	}
	for i := range tools { // a group that doesn't exist was never visited
		if t := &tools[i]; t.err != nil && r.byName[t.Name] == nil && !knownGroup(t.Group) {
			errs = append(errs, fmt.Errorf("tool %s: %w", t.Name, t.err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return r, nil
}

func knownGroup(g Group) bool {
	for _, k := range Groups() {
		if k == g {
			return true
		}
	}
	return false
}

// Tools are all tools in catalog order.
func (r *Registry) Tools() []*Tool { return r.tools }

// Lookup finds a tool by its canonical name, its underscored spelling or its
// name without the prefix.
func (r *Registry) Lookup(name string) (*Tool, bool) {
	t, ok := r.byName[bare(name)]
	return t, ok
}

// unknown is the error for a name that is not in the set.
func (s *Set) unknown(name string) *problem.Error {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Canonical
	}
	shown := name
	if len(shown) > 100 {
		shown = shown[:100] + "…"
	}
	e := problem.New(CodeUnknownTool, "there is no tool %q that this connection can call", shown)
	if near := nearest.Names(bare(name), bareNames(s.tools)); len(near) > 0 {
		for i := range near {
			near[i] = Prefix + near[i]
		}
		return e.WithValid(near...).WithHint("Did you mean %s?", near[0])
	}
	return e.WithHint("sophia.capability_catalog lists what you can call.")
}

func bareNames(tools []*Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}
