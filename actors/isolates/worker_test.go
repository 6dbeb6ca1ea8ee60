package isolates

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates/wire"
	"sophia/actors/supervise"
	"sophia/messages"
)

// listener is a process that says Ready and tells what it was sent.
type listener struct {
	net.Conn
	inside net.Conn
	heard  chan wire.Kind
}

func (p *listener) Kill()      { p.Conn.Close(); p.inside.Close() }
func (p *listener) Wait() Exit { return Exit{} }

func (p *listener) live() {
	report, _ := json.Marshal(wire.Report{})
	_ = wire.Write(p.inside, wire.Frame{Kind: wire.Ready, Payload: report})
	for {
		f, err := wire.Read(p.inside)
		if err != nil {
			return
		}
		p.heard <- f.Kind
	}
}

// A caller that was told that its worker is down gives the snippet to another
// one. The first one, should it get to it after all, leaves it alone.
func TestWorker_DoesNotRunWhatItsCallerGaveUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan wire.Kind, 16)
		s := New(Config{Warm: 1, Max: 1, Spawn: func(context.Context) (Proc, error) {
			outside, inside := net.Pipe()
			p := &listener{Conn: outside, inside: inside, heard: heard}
			go p.live()
			return p, nil
		}})
		engine, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			t.Fatal(err)
		}
		tree, err := supervise.Start(engine, "test", supervise.Policy{}, s.Spec())
		if err != nil {
			t.Fatal(err)
		}
		worker, err := s.acquire(t.Context(), "conn-1")
		if err != nil {
			t.Fatal(err)
		}
		givenUp := new(atomic.Bool)
		givenUp.Store(true)
		_, err = worker.Ask(t.Context(), job{ctx: t.Context(), req: messages.RunRequest{Code: "1"}, taken: givenUp})
		if !errors.Is(err, supervise.ErrDown) {
			t.Errorf("the worker answered with %v", err)
		}
		if _, err := tree.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(heard) > 0 {
			t.Errorf("the process was sent %v", <-heard)
		}
	})
}
