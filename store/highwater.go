package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
	"sophia/store/engine"
)

// The high-water file says how far the journal had come. It lies outside the
// engine's folder, because of what an engine does with a damaged write-ahead
// log: measured on badger, a flipped byte opens without an error and drops the
// acknowledged transactions after it. A journal that ends before the mark, or
// has another hash there, is refused.
//
// The mark is written after each commit, through a mapping, and synced within a
// second: it may lag behind the store, never be ahead of it. So a kill -9 loses
// nothing of it, and a power failure at most a second's worth of the check, not
// of the data. (A write call per commit made each commit's own sync 14 % slower
// on ext4: it brings a second file into the file system's journal.)
//
// Layout: two slots used in turn, so that one of them is whole at any time, each seq (8 bytes), hash (32), HMAC-SHA256
// with the store's sealing key (32). The key binds it to this store.
type highWater struct {
	f       *os.File
	b       []byte // the mapping
	key     []byte
	foreign bool // there is something, and it is not of this store

	mu   sync.Mutex
	seq  uint64
	hash []byte
	slot int64

	kick chan struct{}
	stop chan struct{}
	done chan struct{}
}

const (
	waterSlot = 8 + sha256.Size + sha256.Size
	waterSize = 4096
	waterSync = time.Second
)

func openHighWater(file string, key []byte) (*highWater, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, problem.Wrap(err, "store_not_opened", "the high-water file %s can't be opened", file)
	}
	w := &highWater{f: f, key: key, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if err := w.open(); err != nil {
		return nil, problem.Wrap(errors.Join(err, f.Close()), "store_not_opened", "the high-water file %s can't be used", file)
	}
	go w.sync()
	return w, nil
}

func (w *highWater) open() error {
	st, err := w.f.Stat()
	if err != nil {
		return err
	}
	if n := st.Size(); n < waterSize { // written, not truncated to size: its block must exist
		if _, err := w.f.WriteAt(make([]byte, waterSize-n), n); err != nil {
			return err
		}
	}
	w.b, err = unix.Mmap(int(w.f.Fd()), 0, waterSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	w.foreign = !bytes.Equal(w.b, make([]byte, waterSize))
	for slot := range int64(2) {
		b := w.b[slot*waterSlot:][:waterSlot]
		if seq := binary.BigEndian.Uint64(b); hmac.Equal(w.mac(b[:waterSlot-sha256.Size]), b[waterSlot-sha256.Size:]) && seq >= w.seq {
			w.seq, w.hash, w.slot, w.foreign = seq, bytes.Clone(b[8:8+sha256.Size]), slot, false
		}
	}
	return nil
}

func (w *highWater) mac(b []byte) []byte {
	m := hmac.New(sha256.New, w.key)
	m.Write(b)
	return m.Sum(nil)
}

// check compares the mark with the journal.
func (w *highWater) check(snap engine.Snapshot, h head) error {
	if w.foreign {
		return problem.New("store_damaged", "%s does not belong to this store, or is damaged", w.f.Name()).
			WithHint("Was the store's folder replaced? Put the right one back; or move the file away to trust the one that is there.")
	}
	if w.seq == 0 {
		return nil
	}
	lost := problem.New("store_truncated", "the journal ends at entry %d, and entry %d was acknowledged: the store lost writes", h.Seq, w.seq).
		WithHint("Restore a backup. To go on with what is left, move %s away.", w.f.Name())
	if h.Seq < w.seq {
		return lost
	}
	v, ok, err := snap.Get(journalKey(w.seq))
	if err != nil {
		return err
	}
	if !ok {
		return lost
	}
	hash, _, _, err := readEntry(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(hash, w.hash) {
		return problem.New("store_damaged", "journal entry %d is not the one that was acknowledged", w.seq).
			WithHint("Restore a backup. To go on with what is there, move %s away.", w.f.Name())
	}
	return nil
}

// checkNew refuses a new store where another one's mark lies: its folder is gone.
func (w *highWater) checkNew() error {
	if w.foreign || w.seq > 0 {
		return problem.New("store_truncated", "there is no store, but %s belongs to one", w.f.Name()).
			WithHint("Restore the store from a backup. To begin with an empty one, move %s away.", w.f.Name())
	}
	return nil
}

// raise moves the mark.
func (w *highWater) raise(seq uint64, hash []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq == w.seq || len(hash) != sha256.Size {
		return
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, waterSlot), seq)
	b = append(b, hash...)
	b = append(b, w.mac(b)...)
	slot := 1 - w.slot
	copy(w.b[slot*waterSlot:], b)
	w.seq, w.hash, w.slot = seq, hash, slot
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *highWater) sync() {
	defer close(w.done)
	for {
		select {
		case <-w.stop:
			return
		case <-w.kick:
		}
		_ = unix.Msync(w.b, unix.MS_SYNC) // tried again with the next mark
		select {
		case <-w.stop:
			return
		case <-time.After(waterSync):
		}
	}
}

func (w *highWater) close() error {
	close(w.stop)
	<-w.done
	return errors.Join(unix.Msync(w.b, unix.MS_SYNC), unix.Munmap(w.b), w.f.Close())
}
