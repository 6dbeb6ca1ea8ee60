package ownerapi

import (
	"context"
	"net"
)

// Presence decides whether the process at the other end of a connection is the
// packaged tray.
type Presence interface {
	// Check looks at the peer as the kernel reports it, and says why not in a
	// problem.Error. Nothing is sent.
	Check(ctx context.Context, conn *net.UnixConn) (Peer, error)
	// Challenge makes the checked process itself answer over the connection, so
	// that a connection stolen by fork before exec is worth nothing.
	Challenge(ctx context.Context, conn *net.UnixConn, peer Peer) error
}

// Peer is who is at the other end.
type Peer struct {
	PID          int
	SHA256       string // of the executable, hex
	ControlGroup string
	Close        func() // drops what Check holds; may be nil
}

// Answer is the tray's side of Challenge.
type Answer func(ctx context.Context, conn *net.UnixConn) error
