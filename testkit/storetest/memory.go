package storetest

import (
	"errors"
	"sync"

	"github.com/tidwall/btree"

	"sophia/store/engine"
)

// ErrDisk is what a failing engine answers.
var ErrDisk = errors.New("storetest: the disk failed")

// Memory is an engine in memory. Fail makes the next Apply fail.
type Memory struct {
	mu   sync.Mutex
	m    *btree.Map[string, []byte]
	fail bool

	MaxOps, MaxBytes int // of one batch; 0: large
}

// NewMemory makes an empty one.
func NewMemory() *Memory { return &Memory{m: new(btree.Map[string, []byte])} }

// Fail makes the next Apply fail, as a full disk does.
func (m *Memory) Fail() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = true
}

// Change edits a stored value in place, as a damaged disk does. f gets each
// key and value and returns the new value.
func (m *Memory) Change(f func(key string, value []byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := new(btree.Map[string, []byte])
	m.m.Scan(func(k string, v []byte) bool {
		if v := f(k, append([]byte(nil), v...)); v != nil {
			next.Set(k, v)
		}
		return true
	})
	m.m = next
}

func (m *Memory) Snapshot() engine.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memorySnapshot{m.m.Copy()}
}

func (m *Memory) Apply(ops []engine.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail {
		m.fail = false
		return ErrDisk
	}
	next := m.m.Copy()
	for _, op := range ops {
		if op.Value == nil {
			next.Delete(string(op.Key))
		} else {
			next.Set(string(op.Key), op.Value)
		}
	}
	m.m = next
	return nil
}

func (m *Memory) Limit() (int, int) {
	ops, bytes := m.MaxOps, m.MaxBytes
	if ops == 0 {
		ops = 1 << 20
	}
	if bytes == 0 {
		bytes = 1 << 30
	}
	return ops, bytes
}

func (m *Memory) Check() error { return nil }
func (m *Memory) Close() error { return nil }

type memorySnapshot struct{ m *btree.Map[string, []byte] }

func (s *memorySnapshot) Get(key []byte) ([]byte, bool, error) {
	v, ok := s.m.Get(string(key))
	return v, ok, nil
}

func (s *memorySnapshot) Scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	if reverse {
		take := func(k string, v []byte) bool {
			if high != nil && k >= string(high) {
				return true
			}
			return k >= string(low) && f([]byte(k), v)
		}
		if high == nil {
			s.m.Reverse(take)
		} else {
			s.m.Descend(string(high), take)
		}
		return nil
	}
	s.m.Ascend(string(low), func(k string, v []byte) bool {
		return (high == nil || k < string(high)) && f([]byte(k), v)
	})
	return nil
}

func (s *memorySnapshot) Last(low, high []byte) (key, value []byte, ok bool, err error) {
	err = s.Scan(low, high, true, func(k, v []byte) bool {
		key, value, ok = k, v, true
		return false
	})
	return key, value, ok, err
}

func (s *memorySnapshot) Close() {}
