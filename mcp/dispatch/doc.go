// Package dispatch is the one path of every tool call, direct or from inside
// an isolate:
//
//	name (either spelling) → callable (profile ∩ surface ∩ scope)
//	→ arguments against the schema → approval gate where it writes
//	→ handler → compact/fields → size bound → _inbox_unread
//
// It knows nothing of HTTP or JSON-RPC: mcp/transport calls it for clients, the
// execute_code tool calls it for scripts, the owner's API for the owner.
//
// Imports: mcp/registry, actors/approvals (the digest), actors/isolates/runclock, messages.
package dispatch
