package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sophia/hostd/harness"
)

// scripted is a held harness that the test spoils.
type scripted struct {
	guarded bool
	spoiled error
	closed  int
}

func (s *scripted) Guarded() bool                 { return s.guarded }
func (s *scripted) Recheck(context.Context) error { return s.spoiled }
func (s *scripted) Close() error                  { s.closed++; return nil }

var key = holdKey{harness: "codex", tree: "3f9a"}

func TestHolds_LaunchesThatOverlapHashOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s holds
		one := &scripted{guarded: true}
		opened := 0
		release := make(chan struct{})
		open := func(context.Context) (held, error) { opened++; <-release; return one, nil }
		var mu sync.Mutex
		var got []*lent
		for range 20 {
			go func() {
				l, err := s.take(t.Context(), key, open)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, l)
			}()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if opened != 1 || len(got) != 20 {
			t.Fatalf("opened %d times for %d launches", opened, len(got))
		}
		for i, l := range got {
			if one.closed != 0 {
				t.Fatalf("closed when %d launches still had it", 20-i)
			}
			for range 2 { // a second close is none
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(linger - 1)
		if one.closed != 0 {
			t.Error("closed before its time")
		}
		again, err := s.take(t.Context(), key, open)
		if err != nil || opened != 1 {
			t.Fatalf("%v; the next launch hashed it again", err)
		}
		time.Sleep(2 * linger)
		if one.closed != 0 {
			t.Error("closed while a launch had it")
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(linger)
		synctest.Wait()
		if one.closed != 1 || len(s.open) != 0 {
			t.Errorf("closed %d times, %d are still held", one.closed, len(s.open))
		}
	})
}

func TestHolds_WhatIsSpoiledOrUnguardedIsNotShared(t *testing.T) {
	for name, first := range map[string]*scripted{
		"spoiled":   {guarded: true, spoiled: errors.New("it was opened for writing")},
		"unguarded": {},
	} {
		t.Run(name, func(t *testing.T) {
			var s holds
			second := &scripted{guarded: true}
			a, err := s.take(t.Context(), key, func(context.Context) (held, error) { return first, nil })
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.take(t.Context(), key, func(context.Context) (held, error) { return second, nil })
			if err != nil || b.held != second {
				t.Fatalf("the second launch got %v, %v", b, err)
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil || first.closed != 1 {
				t.Errorf("%v: closed %d times", err, first.closed)
			}
		})
	}
}

func TestHolds_AnotherLaunchsEndIsNotMine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s holds
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() {
			_, err := s.take(ctx, key, func(ctx context.Context) (held, error) { <-ctx.Done(); return nil, ctx.Err() })
			done <- err
		}()
		synctest.Wait()
		good := &scripted{guarded: true}
		go func() {
			l, err := s.take(t.Context(), key, func(context.Context) (held, error) { return good, nil })
			if err == nil {
				err = l.Close()
			}
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that was ended: %v", err)
		}
		if err := <-done; err != nil || s.open[key].held != good {
			t.Errorf("the other: %v", err)
		}
	})
}

// What somebody has changed, or waits to write to, while a launch had it does not
// stay held after that.
func TestHolds_WhatWasSpoiledMeanwhileIsGivenUp(t *testing.T) {
	var s holds
	one := &scripted{guarded: true}
	l, err := s.take(t.Context(), key, func(context.Context) (held, error) { return one, nil })
	if err != nil {
		t.Fatal(err)
	}
	one.spoiled = errors.New("it was opened for writing")
	s.yield(t.Context())
	if one.closed != 0 {
		t.Error("closed while a launch had it")
	}
	if err := l.Close(); err != nil || one.closed != 1 || len(s.open) != 0 {
		t.Errorf("%v: closed %d times, %d held", err, one.closed, len(s.open))
	}
}

// Who wants to write to a harness that no launch holds need not wait for the end
// of linger, nor for the kernel's patience, and the next launch hashes what was
// written.
func TestHolds_AWriterDoesNotWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s holds
	ctx, end := context.WithCancel(t.Context())
	attended := make(chan struct{})
	go func() { defer close(attended); s.attend(ctx) }()
	defer func() { end(); <-attended }()
	take := func() (string, error) {
		l, err := s.take(t.Context(), key, func(ctx context.Context) (held, error) {
			f, err := harness.Hold(ctx, path, harness.Rules{Data: true})
			return alone{f}, err
		})
		if err != nil {
			return "", err
		}
		if !l.Guarded() {
			t.Fatal("no read lease")
		}
		return l.held.(alone).Identity().SHA256, l.Close()
	}
	before, err := take()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("as it is now"), 0o600) }()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the writer waits")
	}
	if after, err := take(); err != nil || after == before {
		t.Errorf("%v; the next launch has the old digest", err)
	}
}
