// Package wrapper is sophia-wrapper: the one MCP server that a managed agent
// has, and the stdio face of the daemon's MCP endpoint for any other client.
//
//	harness ── stdio, JSON-RPC lines ──▶ Proxy ── HTTP + bearer ──▶ daemon
//
// Before the first line is read the credential is there and proven:
//
//	managed   envelope socket → handle → broker → bearer → work receipt bound to
//	          the lease → deposit; a restarted wrapper gets the deposit and proves it again
//	minted    a bearer from a private file, accepted by the endpoint
//
// The bearer lives in a secret.Secret. net/http wants header strings, so what it
// gets is a random placeholder of the same length; the connection below it puts
// the bearer in its place in a buffer that is zeroed after the write.
//
// Both protocol eras pass through: sessions (2025-06-18, 2025-11-25) are kept
// and made again when the daemon has forgotten them; a request that names its
// version in _meta (2026-07-28) is sent on its own, with the headers that era
// wants. Each request's notifications come before its result, as they came.
//
// When the daemon is away for a moment: what was certainly not delivered is sent
// again, and so are requests that only read; a tool call whose answer was lost
// is answered with daemon_connection_lost, because it may have taken effect.
package wrapper
