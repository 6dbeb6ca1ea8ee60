package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"sophia/messages"
)

// Set is exactly the tools that a caller may call from where it is, in catalog
// order. It depends on the connection's authority alone.
type Set struct {
	tools   []*Tool
	byName  map[string]*Tool
	version string
}

// class is what of an authority matters for what it may call.
type class struct {
	profile messages.Profile
	surface messages.Surface
	scope   int // 0 nothing, 1 some entities, 2 all
	inside  bool
}

// Callable is the set for an authority, inside the isolate or directly.
//
// Profile: observers have no tool that writes the owner's tables. Surface: core
// is the lean list; code lists only what is needed to compose calls, and allows
// everything that the profile allows inside. Scope: see Scope.
func (r *Registry) Callable(a messages.Authority, inside bool) *Set {
	k := class{profile: a.Profile, surface: a.Surface, inside: inside}
	switch {
	case slices.Contains(a.Scope, "*"):
		k.scope = 2
	case len(a.Scope) > 0:
		k.scope = 1
	}
	if s, ok := r.sets.Load(k); ok {
		return s.(*Set)
	}
	s := r.build(k)
	switch k.profile { // an unknown class isn't kept: the map must not grow with what clients send
	case messages.Observer, messages.Assistant, messages.Full, messages.Portal:
		r.sets.Store(k, s)
	}
	return s
}

func (r *Registry) build(k class) *Set {
	s := &Set{byName: map[string]*Tool{}}
	h := sha256.New()
	for _, t := range r.tools {
		if !k.allows(t) {
			continue
		}
		s.tools = append(s.tools, t)
		s.byName[t.Name] = t
		h.Write(t.fingerprint())
	}
	s.version = hex.EncodeToString(h.Sum(nil))[:16]
	return s
}

func (k class) allows(t *Tool) bool {
	switch k.profile {
	case messages.Observer:
		if len(t.Effects.Writes) > 0 {
			return false
		}
	case messages.Assistant, messages.Full, messages.Portal:
	default:
		return false
	}
	if t.Scope == Scoped && k.scope == 0 || t.Scope == AllEntities && k.scope < 2 {
		return false
	}
	if k.inside && t.DirectOnly {
		return false
	}
	switch k.surface {
	case messages.SurfaceFull:
		return true
	case messages.SurfaceCore:
		return t.Core
	case messages.SurfaceCode:
		return k.inside || t.Code
	}
	return false
}

// Tools are the set's tools in catalog order. The slice is shared: read only.
func (s *Set) Tools() []*Tool { return s.tools }

// Find returns the tool of a name in any spelling, or a *problem.Error that
// names the nearest one. A tool outside the set is as unknown as no tool.
func (s *Set) Find(name string) (*Tool, error) {
	if t := s.byName[bare(name)]; t != nil {
		return t, nil
	}
	return nil, s.unknown(name)
}

// Has says whether the set has a tool, in any spelling of its name.
func (s *Set) Has(name string) bool { return s.byName[bare(name)] != nil }

// Version changes when and only when what can be called changes.
func (s *Set) Version() string { return s.version }

// Methods are what sophia.* offers inside an isolate.
func (s *Set) Methods() []messages.Method {
	out := make([]messages.Method, len(s.tools))
	for i, t := range s.tools {
		out[i] = messages.Method{Name: t.Method, Tool: t.Canonical}
	}
	return out
}

// Asks says whether the owner is asked before this authority's call of t
// (spec mcp-surface, Boundaries): assistants for each write, everyone for an
// elevated tool, the owner's own browser never.
func Asks(a messages.Authority, t *Tool) bool {
	if a.Profile == messages.Portal || len(t.Effects.Writes) == 0 {
		return false
	}
	return t.Effects.Elevated || a.Profile != messages.Full || a.WriteApproval == messages.WriteApprovalAlways
}
