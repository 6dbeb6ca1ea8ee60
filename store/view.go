package store

import (
	"context"

	"github.com/tidwall/btree"

	"sophia/store/engine"
	"sophia/store/seal"
)

// pending is a write that is not applied yet; nil deletes.
type pending = btree.Map[string, []byte]

// view reads a snapshot with pending writes laid over it.
type view struct {
	snap engine.Snapshot
	seal *seal.Sealer
	over *pending        // nil for a plain reader
	ctx  context.Context // ends a long scan; nil never does
}

func (v *view) get(key []byte) ([]byte, bool, error) {
	if v.over != nil {
		if val, ok := v.over.Get(string(key)); ok {
			return val, val != nil, nil
		}
	}
	return v.snap.Get(key)
}

// scanEvery is after how many keys a scan looks whether it is still wanted.
const scanEvery = 256

// scan is merge that ends with the view's context.
func (v *view) scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	if v.ctx == nil || v.ctx.Done() == nil {
		return v.merge(low, high, reverse, f)
	}
	if err := v.ctx.Err(); err != nil {
		return err
	}
	n := 0
	var ended error
	err := v.merge(low, high, reverse, func(key, value []byte) bool {
		if n++; n%scanEvery == 0 {
			if ended = v.ctx.Err(); ended != nil {
				return false
			}
		}
		return f(key, value)
	})
	if ended != nil {
		return ended
	}
	return err
}

// merge calls f for each key in [low, high) in order, or downwards, with the
// pending writes in their places. f must not write.
func (v *view) merge(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	if v.over == nil || v.over.Len() == 0 {
		return v.snap.Scan(low, high, reverse, f)
	}
	it := v.over.Iter()
	next, ok := it.Next, false
	switch {
	case !reverse:
		ok = it.Seek(string(low))
	case high == nil:
		next, ok = it.Prev, it.Last()
	default:
		next = it.Prev
		if it.Seek(string(high)) {
			ok = it.Prev()
		} else {
			ok = it.Last()
		}
	}
	inside := func() bool {
		if !ok {
			return false
		}
		if reverse {
			return it.Key() >= string(low)
		}
		return high == nil || it.Key() < string(high)
	}
	before := func(a, b string) bool {
		if reverse {
			return a > b
		}
		return a < b
	}
	more := true
	err := v.snap.Scan(low, high, reverse, func(key, value []byte) bool {
		for inside() && before(it.Key(), string(key)) {
			if it.Value() != nil && !f([]byte(it.Key()), it.Value()) {
				more = false
				return false
			}
			ok = next()
		}
		if inside() && it.Key() == string(key) {
			value = it.Value()
			ok = next()
			if value == nil {
				return true
			}
		}
		more = f(key, value)
		return more
	})
	if err != nil || !more {
		return err
	}
	for ; inside(); ok = next() {
		if it.Value() != nil && !f([]byte(it.Key()), it.Value()) {
			return nil
		}
	}
	return nil
}

func (v *view) scanPrefix(prefix []byte, reverse bool, f func(key, value []byte) bool) error {
	return v.scan(prefix, after(prefix), reverse, f)
}

// last returns the last key of [low, high) and its value.
func (v *view) last(low, high []byte) (key, value []byte, ok bool, err error) {
	var own string
	var ownValue []byte
	if v.over != nil {
		it := v.over.Iter()
		found := false
		if high != nil && it.Seek(string(high)) {
			found = it.Prev()
		} else {
			found = it.Last()
		}
		for found && it.Value() == nil && it.Key() >= string(low) {
			found = it.Prev()
		}
		if found && it.Key() >= string(low) {
			own, ownValue, ok = it.Key(), it.Value(), true
		}
	}
	for {
		k, val, found, err := v.snap.Last(low, high)
		if err != nil {
			return nil, nil, false, err
		}
		if !found || ok && string(k) <= own {
			return []byte(own), ownValue, ok, nil
		}
		if v.over == nil {
			return k, val, true, nil
		}
		if written, hidden := v.over.Get(string(k)); !hidden || written != nil {
			return k, val, true, nil
		}
		high = k // deleted by this write: what is before it?
	}
}
