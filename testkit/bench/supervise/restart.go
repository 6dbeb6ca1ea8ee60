package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/testkit/bench"
)

const crashes = 2000

type boom struct{}

// phoenix panics when told to and says when it runs.
type phoenix struct{ up chan<- struct{} }

func (r phoenix) Receive(c *actor.Context) {
	switch c.Message().(type) {
	case actor.Started:
		r.up <- struct{}{}
	case boom:
		panic("boom")
	}
}

// restarts compares the time from the message that crashes an actor until its
// next life has Started, neither side waiting a back-off.
func restarts(report *bench.Report, rounds int) error {
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return err
	}
	up := make(chan struct{}, 1)
	rise := func() actor.Receiver { return phoenix{up} }
	tree, err := supervise.Start(e, "restart", supervise.Policy{Max: math.MaxInt, Within: time.Millisecond},
		supervise.Spec{ID: "a", New: rise})
	if err != nil {
		return err
	}
	<-up
	pid := e.Spawn(rise, "bare", actor.WithMaxRestarts(-1), actor.WithRestartDelay(0))
	<-up
	a := tree.Lookup("a")
	r, err := bench.Interleave(rounds,
		bench.Contestant{Name: "ours", Run: func() (float64, error) {
			begin := time.Now()
			for range crashes {
				if err := a.Send(boom{}); err != nil {
					return 0, err
				}
				<-up
			}
			return float64(time.Since(begin)) / crashes / 1e3, nil
		}},
		bench.Contestant{Name: "hollywood", Run: func() (float64, error) {
			begin := time.Now()
			for range crashes {
				e.Send(pid, boom{})
				<-up
			}
			return float64(time.Since(begin)) / crashes / 1e3, nil
		}})
	if err != nil {
		return err
	}
	report.Note("crash to running: ours %.1f µs, hollywood %.1f µs (with no delay; by default it waits 500 ms)", r.Median("ours"), r.Median("hollywood"))
	report.Figure("restart_ratio", r.Ratio("ours", "hollywood"), bench.Below, 1)
	<-e.Stop(pid).Done()
	return stop(tree)
}

func stop(tree *supervise.Tree) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := tree.Stop(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d actors did not stop", len(left))
	}
	return err
}
