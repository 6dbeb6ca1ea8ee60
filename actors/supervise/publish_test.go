package supervise

import (
	"fmt"
	"sync"
	"testing"

	"github.com/anthdm/hollywood/actor"
)

// firsts records what each life receives first.
type firsts struct {
	mu  sync.Mutex
	got map[string]int
}

type firstOnly struct {
	f    *firsts
	seen bool
}

func (a *firstOnly) Receive(c *actor.Context) {
	if a.seen {
		return
	}
	a.seen = true
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.got[fmt.Sprintf("%T", c.Message())]++
}

// A sibling that looks a child up all the time must not reach it before its
// Initialized: the message would be taken for it, and the life would never end.
func TestTree_NobodyReachesAChildBeforeItsInitialized(t *testing.T) {
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Start(e, "publish", Policy{})
	if err != nil {
		t.Fatal(err)
	}
	f := &firsts{got: map[string]int{}}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = tree.Lookup("child").Send("too early")
				}
			}
		})
	}
	const lives = 40
	for range lives {
		if _, err := tree.Add(Spec{ID: "child", New: func() actor.Receiver { return &firstOnly{f: f} }}); err != nil {
			t.Fatal(err)
		}
		if err := tree.Remove(t.Context(), "child"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if left, err := tree.Stop(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if f.got["actor.Initialized"] != lives {
		t.Errorf("first messages: %v", f.got)
	}
}
