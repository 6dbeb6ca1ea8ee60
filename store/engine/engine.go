package engine

import "errors"

// ErrTooBig is returned by Apply for a batch over the engine's limit
// (see Engine.Limit).
var ErrTooBig = errors.New("engine: the batch is too big for one commit")

// ErrNoSpace is returned by Apply, which then has written nothing, while the
// disk is too full to be sure of the commit.
var ErrNoSpace = errors.New("engine: the disk is full")

// Op sets a key, or deletes it when Value is nil.
type Op struct {
	Key   []byte
	Value []byte
}

// Engine is an ordered key-value store.
type Engine interface {
	// Snapshot is a view of the last applied batch; it must be closed. A
	// snapshot may be used by one goroutine at a time.
	Snapshot() Snapshot
	// Apply writes all of the operations or none, and returns when they would
	// survive a power failure. The slices are the engine's from then on.
	Apply([]Op) error
	// Limit is about how many operations and bytes one batch may have.
	Limit() (ops, bytes int)
	// Check reads all stored blocks and compares their checksums.
	Check() error
	Close() error
}

// Snapshot reads one state of the store.
type Snapshot interface {
	// Get returns the value of a key. ok is false when there is none. The
	// value may be kept.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls f for each key in [low, high) in order, or from high down to
	// low when reverse, until f returns false. A nil high is the end of all
	// keys. key and value are valid only within f.
	Scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error
	// Last returns the last key of [low, high). ok is false when there is none.
	// key and value may be kept. It is meant for many calls on one snapshot.
	Last(low, high []byte) (key, value []byte, ok bool, err error)
	Close()
}
