package writer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"

	"sophia/actors/supervise"
	"sophia/actors/writer"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gated is a store whose commits wait for the test.
type gated struct {
	db     *store.DB
	begun  chan int
	finish chan struct{}
}

func (g *gated) WriteGroup(jobs []store.Job) []store.Outcome {
	g.begun <- len(jobs)
	<-g.finish
	return g.db.WriteGroup(jobs)
}

func start(t *testing.T, g writer.Grouper) (writer.Writer, *supervise.Tree) {
	t.Helper()
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := supervise.Start(e, "store", supervise.Policy{Max: 3}, writer.Spec(g))
	if err != nil {
		t.Fatal(err)
	}
	return writer.New(tree.Lookup(writer.ID)), tree
}

func put(id string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		return tables.Goals.Insert(tx, tables.Note{ID: id, Text: id, Status: tables.NoteOpen})
	}
}

var cause = store.System("test", "")

func TestWriter_WhatQueuesDuringACommitGoesInOne(t *testing.T) { synctest.Test(t, groupCommit) }

func groupCommit(t *testing.T) {
	db, _ := storetest.InMemory(t)
	g := &gated{db: db, begun: make(chan int), finish: make(chan struct{})}
	w, tree := start(t, g)
	const waiters = 20
	errs := make([]error, waiters)
	var wg sync.WaitGroup
	first := make(chan error, 1)
	go func() {
		_, err := w.Write(context.Background(), cause, put("goal-first"))
		first <- err
	}()
	if n := <-g.begun; n != 1 {
		t.Fatalf("the first commit has %d writes", n)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	for i := range waiters {
		ctx := context.Background()
		if i == 7 {
			ctx = cancelled
		}
		wg.Go(func() {
			f := put(fmt.Sprintf("goal-%d", i))
			if i == 3 {
				f = func(tx *store.Tx) error { return errors.Join(put("goal-3")(tx), errors.New("no")) }
			}
			_, errs[i] = w.Write(ctx, cause, f)
		})
	}
	synctest.Wait() // all of them are queued now
	cancel()
	g.finish <- struct{}{}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	groups, done := 0, 0
	for done < waiters {
		done += <-g.begun
		groups++
		g.finish <- struct{}{}
	}
	wg.Wait()
	if groups != 1 {
		t.Errorf("%d writes took %d commits", waiters, groups)
	}
	for i, err := range errs {
		switch i {
		case 3:
			if err == nil {
				t.Error("the failed write was acknowledged")
			}
		case 7:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled write: %v", err)
			}
		default:
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
	}
	if n := db.Rows(tables.Goals.Def()); n != waiters-2+1 {
		t.Errorf("%d rows", n)
	}
	if _, err := tree.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(context.Background(), cause, put("goal-late")); problem.CodeOf(err) != "store_unavailable" {
		t.Errorf("after the stop: %v", err)
	}
}

func TestWriter_StoppedInACommitAnswersEveryone(t *testing.T) {
	db, _ := storetest.InMemory(t)
	g := &gated{db: db, begun: make(chan int, 1), finish: make(chan struct{})}
	w, tree := start(t, g)
	running := make(chan error, 1)
	go func() {
		_, err := w.Write(context.Background(), cause, put("goal-running"))
		running <- err
	}()
	<-g.begun
	stopped := make(chan error, 1)
	go func() {
		_, err := tree.Stop(context.Background())
		stopped <- err
	}()
	g.finish <- struct{}{}
	if err := <-running; err != nil {
		t.Errorf("a write whose commit was under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
