package custody_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/custody"
	"sophia/actors/supervise"
	"sophia/messages"
)

// files is a keeper without files: a real credential, and a copy per launch.
// It notices when two things are done to it at once.
type files struct {
	mu      sync.Mutex
	expired bool
	rotated map[string]bool // launches whose copy was renewed
	writes  []string        // launches whose copy was written back
	settles int
	fail    error
	panics  int
	busy    bool
	overlap bool
}

func (f *files) enter(ctx context.Context) func() {
	f.mu.Lock()
	f.overlap = f.overlap || f.busy
	f.busy = true
	f.mu.Unlock()
	select { // long enough for another one to come along
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
	f.mu.Lock()
	return func() { f.busy = false; f.mu.Unlock() }
}

func (f *files) Expired(ctx context.Context, _, _ string) (bool, error) {
	defer f.enter(ctx)()
	return f.expired, f.fail
}

func (f *files) Settle(ctx context.Context, n messages.CredentialCopy) (messages.CredentialOutcome, error) {
	defer f.enter(ctx)()
	f.settles++
	if f.panics > 0 {
		f.panics--
		f.busy = false
		panic("the keeper fell over")
	}
	if f.fail != nil {
		return messages.CredentialOutcome{}, f.fail
	}
	if f.rotated[n.Launch] && n.SHA256 != "new-"+n.Launch {
		f.expired = false
		f.writes = append(f.writes, n.Launch)
		return messages.CredentialOutcome{Outcome: messages.CredentialWrittenBack, SHA256: "new-" + n.Launch}, nil
	}
	return messages.CredentialOutcome{Outcome: messages.CredentialUnchanged, SHA256: n.SHA256}, nil
}

func (f *files) Written(string) (out []string, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, launch := range f.writes {
		out = append(out, "new-"+launch)
	}
	return out, nil
}

func (f *files) set(change func()) { f.mu.Lock(); defer f.mu.Unlock(); change() }

const real = "/home/o/.codex/auth.json"

func note(launch string) messages.CredentialCopy {
	return messages.CredentialCopy{Launch: launch, Harness: "codex", Real: real, SHA256: "old"}
}

// with runs f in virtual time with a tree of custodians.
func with(t *testing.T, k *files, f func(t *testing.T, c *custody.Custodians, tree *supervise.Tree)) {
	synctest.Test(t, func(t *testing.T) {
		e, err := actor.NewEngine(actor.NewEngineConfig())
		fatal(t, err)
		root, err := supervise.Start(e, "sophiad", supervise.Policy{}, custody.Spec("custody"))
		fatal(t, err)
		c := custody.New(func() *supervise.Tree { return root.Sub("custody") }, k)
		f(t, c, root)
		_, err = root.Stop(t.Context())
		fatal(t, err)
		if k.overlap {
			t.Error("two things were done to one file at once")
		}
	})
}

func lent(t *testing.T, c *custody.Custodians, launch string) {
	t.Helper()
	fatal(t, c.Take(t.Context(), launch, "codex", real))
	fatal(t, c.Copied(t.Context(), note(launch)))
}

func TestCustody_LaunchesShareAGoodCredential(t *testing.T) {
	k := &files{}
	with(t, k, func(t *testing.T, c *custody.Custodians, tree *supervise.Tree) {
		lent(t, c, "a")
		lent(t, c, "b")
		for _, l := range []string{"a", "b"} {
			out, err := c.Return(t.Context(), note(l))
			if err != nil || out.Outcome != messages.CredentialUnchanged {
				t.Error(out, err)
			}
		}
		synctest.Wait()
		for _, s := range tree.Snapshot() {
			if len(s.Kids) != 0 {
				t.Errorf("a custodian without loans goes on: %+v", s.Kids)
			}
		}
	})
}

func TestCustody_WhileExpiredOneLaunchHasIt(t *testing.T) {
	k := &files{expired: true, rotated: map[string]bool{}}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		lent(t, c, "a")
		var got []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, l := range []string{"b", "c"} {
			wg.Go(func() {
				if err := c.Take(t.Context(), l, "codex", real); err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, l)
				mu.Unlock()
			})
		}
		time.Sleep(time.Hour) // virtual: a is at work and has renewed nothing
		mu.Lock()
		if len(got) != 0 {
			t.Errorf("%v have an expired credential beside a", got)
		}
		mu.Unlock()
		// a's harness renews it: the real file gets it now, and the others go.
		k.set(func() { k.rotated["a"] = true })
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the wait went on for %v", took)
		}
		out, err := c.Return(t.Context(), note("a"))
		if err != nil || out.Outcome != messages.CredentialUnchanged {
			t.Error(out, err)
		}
		if written, err := c.Written(real); err != nil || !slices.Equal(k.writes, []string{"a"}) || !slices.Equal(written, []string{"new-a"}) {
			t.Errorf("written back %v (%v, %v), want once", k.writes, written, err)
		}
		for _, l := range []string{"b", "c"} {
			_, err := c.Return(t.Context(), note(l))
			fatal(t, err)
		}
	})
}

func TestCustody_TheNextGoesWhenTheFirstReturns(t *testing.T) {
	k := &files{expired: true, rotated: map[string]bool{"a": true}}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		fatal(t, c.Take(t.Context(), "a", "codex", real)) // not copied yet
		done := make(chan error, 1)
		go func() { done <- c.Take(t.Context(), "b", "codex", real) }()
		synctest.Wait()
		out, err := c.Return(t.Context(), note("a"))
		if err != nil || out.Outcome != messages.CredentialWrittenBack {
			t.Error(out, err)
		}
		fatal(t, <-done)
		fatal(t, c.GiveUp(t.Context(), "b", real))
	})
}

func TestCustody_AWaiterThatLeavesBlocksNobody(t *testing.T) {
	k := &files{expired: true}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		lent(t, c, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Take(ctx, "b", "codex", real); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		_, err := c.Return(t.Context(), note("a"))
		fatal(t, err)
		lent(t, c, "c")
		_, err = c.Return(t.Context(), note("c"))
		fatal(t, err)
	})
}

func TestCustody_AFailedReturnKeepsTheLoan(t *testing.T) {
	full := errors.New("disk full")
	k := &files{rotated: map[string]bool{"a": true}}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		lent(t, c, "a")
		k.set(func() { k.fail = full })
		if _, err := c.Return(t.Context(), note("a")); !errors.Is(err, full) {
			t.Fatal(err)
		}
		k.set(func() { k.fail = nil })
		out, err := c.Return(t.Context(), note("a"))
		if err != nil || out.Outcome != messages.CredentialWrittenBack {
			t.Error(out, err)
		}
	})
}

// A custodian that crashes in the middle of a return is restarted, knows its
// loans, and does what was asked once.
func TestCustody_ACrashLosesNothing(t *testing.T) {
	k := &files{expired: true, rotated: map[string]bool{}}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		lent(t, c, "a")
		k.set(func() { k.panics = 2; k.rotated["a"] = true })
		waited := make(chan error, 1)
		go func() { waited <- c.Take(t.Context(), "b", "codex", real) }()
		fatal(t, <-waited) // through two crashes while a's copy was looked at
		out, err := c.Return(t.Context(), note("a"))
		if err != nil || out.Outcome != messages.CredentialUnchanged {
			t.Error(out, err)
		}
		if !slices.Equal(k.writes, []string{"a"}) || k.panics != 0 {
			t.Errorf("written back %v; crashes left %d", k.writes, k.panics)
		}
		fatal(t, c.GiveUp(t.Context(), "b", real))
	})
}

func TestCustody_ARestartedDaemonResumesLoans(t *testing.T) {
	k := &files{expired: true}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		fatal(t, c.Resume(t.Context(), note("a")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Take(ctx, "b", "codex", real); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("b got what a has: %v", err)
		}
		_, err := c.Return(t.Context(), note("a"))
		fatal(t, err)
	})
}

func TestCustody_ManyAtOnceOneAtATime(t *testing.T) {
	k := &files{}
	with(t, k, func(t *testing.T, c *custody.Custodians, _ *supervise.Tree) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				l := fmt.Sprint("l", i)
				if err := c.Take(t.Context(), l, "codex", real); err != nil {
					t.Error(err)
				}
				if err := c.Copied(t.Context(), note(l)); err != nil {
					t.Error(err)
				}
				if _, err := c.Return(t.Context(), note(l)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if k.settles != 50 {
			t.Errorf("settled %d", k.settles)
		}
	})
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
