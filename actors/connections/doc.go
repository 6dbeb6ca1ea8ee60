// Package connections has one actor per MCP connection: a Transient child of a
// dynamic tree, made at the connection's first call and gone when it was idle.
//
//	Enter ─► actor of the connection ─► admitted, or too_many_calls
//	leave ─► the same life; of an earlier life it is ignored
//
// It bounds what one connection has under way, and knows when it was last seen.
// A crash loses the count, never a call: what was under way goes on.
//
// Imports: actors/supervise, messages.
package connections
