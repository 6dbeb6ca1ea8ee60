// Package ownerkey keeps the owner's session key: one ed25519 key in a file of
// mode 0600. The owner's programs sign every request with it (RFC 9421, package
// ownerapi); the daemon knows it by its public half.
//
// Having the key is authority to ask. It is not presence: approving needs a
// tray or the portal, see package ownerapi.
//
// Imports: messages only.
package ownerkey
