// Package connections mints, lists, revokes and recognizes connections: the
// bearers that agents call with. Only a bearer's SHA-256 is ever stored.
//
// A connection belongs to whoever the owner gives its bearer to, or to one
// managed launch: then it carries the lease, expires with it, and is revoked
// when the launch ends.
//
// The owner's key is authority to ask, not presence: a connection that could
// write without asking, or ask to write anywhere, is minted only when the owner
// approves it.
//
// Imports: actors/approvals, hostd/ownerapi, store, messages.
package connections
