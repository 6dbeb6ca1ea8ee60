package storetest

import (
	"sync/atomic"

	"sophia/store/engine"
)

// Counting counts what is read of an engine: keys that were asked for and keys
// that a scan went over. It is what a read costs, and the same on every machine.
type Counting struct {
	engine.Engine
	Reads atomic.Int64
}

// Snapshot is a counted one.
func (c *Counting) Snapshot() engine.Snapshot {
	return &countedSnapshot{c.Engine.Snapshot(), &c.Reads}
}

type countedSnapshot struct {
	engine.Snapshot
	reads *atomic.Int64
}

func (s *countedSnapshot) Get(key []byte) ([]byte, bool, error) {
	s.reads.Add(1)
	return s.Snapshot.Get(key)
}

func (s *countedSnapshot) Scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	s.reads.Add(1)
	return s.Snapshot.Scan(low, high, reverse, func(k, v []byte) bool {
		s.reads.Add(1)
		return f(k, v)
	})
}

func (s *countedSnapshot) Last(low, high []byte) ([]byte, []byte, bool, error) {
	s.reads.Add(1)
	return s.Snapshot.Last(low, high)
}
