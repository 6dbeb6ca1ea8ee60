// Package registry is the one place where a tool is declared. Everything else
// about it is derived: the MCP tool, its JSON schemas, the catalog's entry, the
// SDK method and its TypeScript types, who may call it, which fields can be
// asked for, and what the owner is shown before it writes.
//
//	registry.Define(Spec, handler, preview?) → Tool
//	registry.New(tools…)                     → Registry   (refuses what does not fit together)
//	Registry.Callable(authority, inside)     → Set        (profile ∩ surface ∩ scope)
//
// A hand-kept list of tools anywhere is a defect.
//
// Imports: messages, mcp/schema, mcp/nearest.
package registry
