// Command store measures a write with all that belongs to it (row, index
// entries, journal entry, synced) against a bare synced badger transaction of
// the row alone, from one writer and from eight at once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"
	"github.com/dgraph-io/badger/v4"

	"sophia/actors/supervise"
	"sophia/actors/writer"
	"sophia/messages"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/bench"
)

func main() {
	rounds := flag.Int("rounds", 9, "counted rounds of each comparison")
	dir := flag.String("dir", "", "folder on the disk to measure; below the user's cache folder by default")
	flag.Parse()
	if err := run(*rounds, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench store:", err)
		os.Exit(1)
	}
}

func run(rounds int, dir string) (err error) {
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "sophia-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	b, err := open(dir)
	if err != nil {
		return err
	}
	report := bench.NewReport("store", os.Stdout)
	for _, part := range []func(*bench.Report, int) error{b.writes, b.lookup} {
		if err := part(report, rounds); err != nil {
			return errors.Join(err, b.close())
		}
	}
	return errors.Join(b.close(), report.Close())
}

// sides are the store behind its writer actor, and badger by itself.
type sides struct {
	db    *store.DB
	tree  *supervise.Tree
	write writer.Writer
	bare  *badger.DB
	next  atomic.Int64
}

func open(dir string) (*sides, error) {
	s := &sides{}
	var err error
	if s.db, err = store.Open(store.Options{Dir: filepath.Join(dir, "ours"), HighWater: filepath.Join(dir, "highwater"), Tables: tables.All()}); err != nil {
		return nil, err
	}
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return nil, err
	}
	if s.tree, err = supervise.Start(e, "store", supervise.Policy{}, writer.Spec(s.db)); err != nil {
		return nil, err
	}
	s.write = writer.New(s.tree.Lookup(writer.ID))
	s.bare, err = badger.Open(badger.DefaultOptions(filepath.Join(dir, "bare")).WithSyncWrites(true).WithLogger(nil))
	return s, err
}

func (s *sides) close() error {
	_, err := s.tree.Stop(context.Background())
	return errors.Join(err, s.db.Close(), s.bare.Close())
}

// row is of a table with two indexes.
func (s *sides) row() messages.ApprovalRow {
	n := s.next.Add(1)
	return messages.ApprovalRow{ApprovalRequest: messages.ApprovalRequest{ID: fmt.Sprintf("ap-%010x", n), Kind: messages.ApproveToolCall,
		Requester: "Reviewer", Title: strings.Repeat("a title of some length ", 8), Requested: time.Unix(n, 0)}}
}

func (s *sides) ours() error {
	row := s.row()
	_, err := s.write.Write(context.Background(), store.System("bench", ""), func(tx *store.Tx) error { return tables.Approvals.Put(tx, row) })
	return err
}

func (s *sides) badger() error {
	row := s.row()
	raw, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return s.bare.Update(func(txn *badger.Txn) error { return txn.Set([]byte(row.ID), raw) })
}

func (s *sides) writes(report *bench.Report, rounds int) error {
	for _, writers := range []int{1, 8} {
		each := 200 / writers
		timed := func(f func() error) func() (float64, error) {
			return func() (float64, error) { return perWrite(writers, each, f) }
		}
		r, err := bench.Interleave(rounds, bench.Contestant{Name: "ours", Run: timed(s.ours)}, bench.Contestant{Name: "badger", Run: timed(s.badger)})
		if err != nil {
			return err
		}
		report.Note("write, %d at once: ours %.0f µs, a bare synced badger transaction %.0f µs each", writers, r.Median("ours")/1e3, r.Median("badger")/1e3)
		metric := "write_ratio"
		if writers > 1 {
			metric = "write_8_ratio"
		}
		report.Figure(metric, r.Ratio("ours", "badger"), bench.AtMost, 1.5)
	}
	return nil
}

// perWrite returns nanoseconds a write.
func perWrite(writers, each int, f func() error) (float64, error) {
	errs := make([]error, writers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range writers {
		wg.Go(func() {
			for range each {
				if errs[i] = f(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(time.Since(begin)) / float64(writers*each), errors.Join(errs...)
}

// lookup is what every call pays for its bearer, with 10,000 connections.
func (s *sides) lookup(report *bench.Report, _ int) error {
	const connections, times = 10_000, 200_000
	for from := 0; from < connections; from += 500 {
		if _, err := s.write.Write(context.Background(), store.System("bench", ""), func(tx *store.Tx) error {
			for i := from; i < from+500; i++ {
				sum := [32]byte{byte(i), byte(i >> 8)}
				if err := tables.Connections.Put(tx, messages.ConnectionRow{Authority: messages.Authority{Connection: fmt.Sprintf("conn-%06x", i), Scope: []string{"*"}}, BearerSHA256: fmt.Sprintf("%x", sum)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	b := tables.NewBearers(s.db)
	if _, ok, err := b.Find([32]byte{1}); err != nil || !ok {
		return fmt.Errorf("bearer not found: %w", err)
	}
	begin := time.Now()
	for i := range times {
		if _, ok, err := b.Find([32]byte{byte(i)}); err != nil || !ok {
			return fmt.Errorf("bearer not found: %w", err)
		}
	}
	ns := float64(time.Since(begin)) / times
	report.Note("bearer look-up among %d connections: %.0f ns", connections, ns)
	report.Figure("bearer_ns", ns, bench.AtMost, 1000)
	return nil
}
