package main

import (
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/testkit/bench"
)

const (
	messages = 400_000
	// window is how many messages are under way before the sender waits for them:
	// enough for batches, and within both inboxes.
	window = 512
)

type tick struct{}

// counter signals each time another window is full.
type counter struct {
	n, window int
	full      chan<- struct{}
}

func (r *counter) Receive(c *actor.Context) {
	if _, ok := c.Message().(tick); ok {
		if r.n++; r.n%r.window == 0 {
			r.full <- struct{}{}
		}
	}
}

// sends compares the time of a message from Send to Receive, with one sender and with several.
func sends(report *bench.Report, rounds int) error {
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return err
	}
	full := make(chan struct{}, 1)
	counting := func() actor.Receiver { return &counter{window: window, full: full} }
	tree, err := supervise.Start(e, "send", supervise.Policy{}, supervise.Spec{ID: "a", New: counting, Inbox: 1024})
	if err != nil {
		return err
	}
	ref := tree.Ref("a")
	pid := e.Spawn(counting, "bare", actor.WithInboxSize(1024))
	ours := func() error { return ref.Send(tick{}) }
	bare := func() error { e.Send(pid, tick{}); return nil }

	for _, senders := range []int{1, 8} {
		r, err := bench.Interleave(rounds,
			bench.Contestant{Name: "ours", Run: func() (float64, error) { return perMessage(senders, full, ours) }},
			bench.Contestant{Name: "hollywood", Run: func() (float64, error) { return perMessage(senders, full, bare) }})
		if err != nil {
			return err
		}
		report.Note("send, %d senders: ours %.0f ns, hollywood %.0f ns a message", senders, r.Median("ours"), r.Median("hollywood"))
		metric := "send_ratio"
		if senders > 1 {
			metric = "send_8_ratio"
		}
		report.Figure(metric, r.Ratio("ours", "hollywood"), bench.AtMost, 1.5)
	}
	<-e.Stop(pid).Done()
	return stop(tree)
}

// perMessage returns nanoseconds a message.
func perMessage(senders int, full <-chan struct{}, send func() error) (float64, error) {
	begin := time.Now()
	if senders == 1 {
		for range messages / window {
			for range window {
				if err := send(); err != nil {
					return 0, err
				}
			}
			<-full
		}
		return float64(time.Since(begin)) / (messages / window * window), nil
	}
	var workers sync.WaitGroup
	errs := make(chan error, senders)
	ready := make(chan struct{}, senders)
	for range senders {
		workers.Go(func() {
			for range ready {
				for range window / senders {
					if err := send(); err != nil {
						errs <- err
					}
				}
			}
		})
	}
	for range messages / window {
		for range senders {
			ready <- struct{}{}
		}
		select {
		case <-full:
		case err := <-errs:
			return 0, err
		}
	}
	close(ready)
	workers.Wait()
	return float64(time.Since(begin)) / (messages / window * window), nil
}
