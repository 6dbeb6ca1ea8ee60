// Package connections has one actor per MCP connection: a Transient child of a
// dynamic tree, made at the connection's first call and gone when it was idle.
//
//	Enter ─► the room that the connection's actor keeps open ─► admitted, or too_many_calls
//	leave ─► the same room; one of an earlier life is ignored
//
// The room is one atomic word, so that a call costs no message: the actor
// decides when it opens and shuts, and nobody enters a shut one.
//
// It bounds what one connection has under way, and knows when it was last seen.
// A crash loses the count, never a call: what was under way goes on.
//
// Imports: actors/supervise, messages.
package connections
