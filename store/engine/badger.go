package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// memTable bounds one batch (15 % of it) and what is replayed after a kill.
const memTable = 32 << 20

// reserve is the free space, in bytes, without which nothing is committed.
// badger writes its log through a mapping of a sparse file: on a full disk that
// is not an error but a SIGBUS, which ends the process. A commit can take a new
// log and a table flushed from memory.
const reserve = 3 * memTable

// Badger opens the embedded engine in dir. Only one process at a time can have
// it open, not even for reading: another one gets store_locked.
func Badger(dir string, log *slog.Logger) (Engine, error) {
	opt := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithMemTableSize(memTable).
		WithNumMemtables(2).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false). // there is one writer
		WithCompression(options.None).
		WithBlockCacheSize(0). // uncompressed tables are read from their mapping
		WithIndexCacheSize(0).
		WithNumCompactors(2).
		WithMetricsEnabled(false).
		WithValueLogFileSize(64 << 20).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithLogger(badgerLog{log})
	db, err := badger.Open(opt)
	if err != nil {
		if strings.Contains(err.Error(), "directory lock") {
			return nil, problem.Wrap(err, "store_locked", "another process has the store in %s open", dir).
				WithHint("Is sophiad running already? Ask it with: sophia status")
		}
		return nil, problem.Wrap(err, "store_not_opened", "the store in %s can't be opened", dir).
			WithHint("Restore it from a backup, or move the folder away to begin with an empty one.")
	}
	return &badgerEngine{db: db, dir: dir}, nil
}

type badgerEngine struct {
	db  *badger.DB
	dir string
}

func (e *badgerEngine) Snapshot() Snapshot {
	return &badgerSnapshot{txn: e.db.NewTransaction(false)}
}

func (e *badgerEngine) Apply(ops []Op) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(e.dir, &disk); err == nil && disk.Bavail*uint64(disk.Bsize) < reserve {
		return ErrNoSpace
	}
	txn := e.db.NewTransaction(true)
	defer txn.Discard()
	for _, op := range ops {
		var err error
		if op.Value == nil {
			err = txn.Delete(op.Key)
		} else {
			err = txn.Set(op.Key, op.Value)
		}
		if errors.Is(err, badger.ErrTxnTooBig) {
			return ErrTooBig
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

func (e *badgerEngine) Limit() (int, int) {
	return int(e.db.MaxBatchCount()), int(e.db.MaxBatchSize())
}

func (e *badgerEngine) Check() error { return e.db.VerifyChecksum() }
func (e *badgerEngine) Close() error { return e.db.Close() }

type badgerSnapshot struct {
	txn  *badger.Txn
	back *badger.Iterator // kept for Last: making one costs far more than a seek
}

func (s *badgerSnapshot) Get(key []byte) ([]byte, bool, error) {
	item, err := s.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	v, err := item.ValueCopy(nil)
	if v == nil {
		v = []byte{}
	}
	return v, err == nil, err
}

func (s *badgerSnapshot) Scan(low, high []byte, reverse bool, f func(key, value []byte) bool) error {
	it := s.txn.NewIterator(badger.IteratorOptions{
		Prefix:  commonPrefix(low, high),
		Reverse: reverse,
	})
	defer it.Close()
	if reverse {
		if high == nil {
			it.Rewind()
		} else {
			it.Seek(high)
		}
	} else {
		it.Seek(low)
	}
	for ; it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()
		if reverse {
			if high != nil && string(key) >= string(high) {
				continue
			}
			if string(key) < string(low) {
				return nil
			}
		} else if high != nil && string(key) >= string(high) {
			return nil
		}
		more := true
		if err := item.Value(func(v []byte) error { more = f(key, v); return nil }); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return nil
}

func (s *badgerSnapshot) Last(low, high []byte) (key, value []byte, ok bool, err error) {
	if s.back == nil {
		s.back = s.txn.NewIterator(badger.IteratorOptions{Reverse: true})
	}
	if high == nil {
		s.back.Rewind()
	} else {
		s.back.Seek(high)
		if s.back.Valid() && bytes.Equal(s.back.Item().Key(), high) {
			s.back.Next()
		}
	}
	if !s.back.Valid() || bytes.Compare(s.back.Item().Key(), low) < 0 {
		return nil, nil, false, nil
	}
	item := s.back.Item()
	value, err = item.ValueCopy(nil)
	return item.KeyCopy(nil), value, err == nil, err
}

func (s *badgerSnapshot) Close() {
	if s.back != nil {
		s.back.Close()
	}
	s.txn.Discard()
}

// commonPrefix narrows the tables that an iterator has to look into.
func commonPrefix(low, high []byte) []byte {
	n := 0
	for n < len(low) && n < len(high) && low[n] == high[n] {
		n++
	}
	return low[:n]
}

type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, a ...any)   { l.say(slog.LevelError, format, a) }
func (l badgerLog) Warningf(format string, a ...any) { l.say(slog.LevelWarn, format, a) }
func (l badgerLog) Infof(format string, a ...any)    { l.say(slog.LevelDebug, format, a) }
func (l badgerLog) Debugf(string, ...any)            {}

func (l badgerLog) say(level slog.Level, format string, a []any) {
	if l.log != nil {
		l.log.Log(context.Background(), level, strings.TrimSpace(fmt.Sprintf(format, a...)), "part", "badger")
	}
}
