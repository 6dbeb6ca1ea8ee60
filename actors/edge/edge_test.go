package edge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// scripted is a server that serves until it is shut down or broken.
type scripted struct {
	stop   chan struct{}
	broken chan error
	slow   bool // a request never ends
}

func (s *scripted) Serve() error {
	select {
	case <-s.stop:
		return nil
	case err := <-s.broken:
		return err
	}
}

func (s *scripted) Shutdown(ctx context.Context) error {
	if s.slow {
		<-ctx.Done()
	}
	close(s.stop)
	return ctx.Err()
}

type sockets struct {
	mu   sync.Mutex
	open []*scripted
	fail int
	slow bool
}

func (k *sockets) listener(id string) Listener {
	return Listener{ID: id, Open: func() (Server, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.fail > 0 {
			k.fail--
			return nil, errors.New("address in use")
		}
		s := &scripted{stop: make(chan struct{}), broken: make(chan error, 1), slow: k.slow}
		k.open = append(k.open, s)
		return s, nil
	}}
}

func run(t *testing.T, f func(tree *supervise.Tree, a, b *sockets)) {
	synctest.Test(t, func(t *testing.T) {
		e, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			t.Fatal(err)
		}
		a, b := &sockets{}, &sockets{}
		tree, err := supervise.Start(e, "daemon", supervise.Policy{}, Spec(a.listener("http"), b.listener("owner")))
		if err != nil {
			t.Fatal(err)
		}
		f(tree, a, b)
		if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("stopping: %v, left %v", err, left)
		}
	})
}

func TestEdge_ABrokenListenerOpensAllAgain(t *testing.T) {
	run(t, func(_ *supervise.Tree, a, b *sockets) {
		a.open[0].broken <- errors.New("accept: too many open files")
		time.Sleep(time.Second) // virtual: the back-off
		synctest.Wait()
		if len(a.open) != 2 || len(b.open) != 2 {
			t.Errorf("opened %d and %d times", len(a.open), len(b.open))
		}
		select {
		case <-b.open[0].stop:
		default:
			t.Error("the other listener was not drained")
		}
	})
}

func TestEdge_AnAddressInUseIsTriedAgain(t *testing.T) {
	run(t, func(_ *supervise.Tree, a, _ *sockets) {
		a.mu.Lock()
		a.fail = 2
		a.mu.Unlock()
		a.open[0].broken <- errors.New("broken")
		time.Sleep(5 * time.Second) // virtual
		synctest.Wait()
		if len(a.open) != 2 {
			t.Errorf("opened %d times", len(a.open))
		}
	})
}

func TestEdge_ARequestThatNeverEndsDoesNotHoldTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			t.Fatal(err)
		}
		k := &sockets{slow: true}
		tree, err := supervise.Start(e, "daemon", supervise.Policy{}, Spec(k.listener("http")))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 || time.Since(begun) > drain+2*time.Second {
			t.Errorf("stopped after %v: %v, left %v", time.Since(begun), err, left)
		}
	})
}
