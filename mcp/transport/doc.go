// Package transport is Sophia's HTTP face: the MCP endpoint in both protocol
// eras, and a plain REST path for single tool calls.
//
//	POST   /mcp                   one JSON-RPC message; the answer is JSON, or a stream when something precedes it
//	GET    /mcp                   a session's stream (2025-06-18, 2025-11-25)
//	DELETE /mcp                   ends a session (likewise)
//	POST   /api/v1/tools/<tool>   arguments in, result out
//
// mcp-go's MCPServer.HandleMessage speaks the protocol. Its HTTP transport is
// not used; what went wrong in it is what this one is built around:
//
//   - Each POST is a client session of its own with its own notification
//     channel, so a notification can reach no other call, and all of a call's
//     notifications are written before its result.
//   - Session ids are issued here and belong to one connection. Anyone else's,
//     and one never issued, is a 404.
//   - A stateless request can be cancelled by closing its stream and by nothing else.
//   - Bodies are bounded (413); Host and Origin are checked (403) before anything is read.
//   - The bearer is looked up on every request, so a revoked one fails on the next.
//   - Idle sessions go together with their streams; Close drains and returns.
//
// Imports: mcp/dispatch, mcp/registry, messages, mcp-go.
package transport
