package main

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/testkit/bench"
)

type ping struct{}

// idler does nothing but answer.
type idler struct{ pings int }

func (r *idler) Receive(c *actor.Context) {
	if _, ok := c.Message().(ping); ok {
		r.pings++
		supervise.ReplyTo(c).Send(r.pings)
	}
}

// idle measures what actors that wait cost, and that 100,000 of them are there.
func idle(report *bench.Report, _ int) error {
	for _, n := range []int{1_000, 10_000, 100_000} {
		e, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			return err
		}
		kids := make([]supervise.Spec, n)
		for i := range kids {
			kids[i] = supervise.Spec{ID: "actor-" + strconv.Itoa(i), New: func() actor.Receiver { return new(idler) }}
		}
		before := heap()
		begin := time.Now()
		tree, err := supervise.Start(e, "idle", supervise.Policy{}, kids...)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		bytes := float64(heap()-before) / float64(n)
		report.Note("%d idle actors: started in %v (%.1f µs each), %.0f bytes each", n, took.Round(time.Millisecond), took.Seconds()*1e6/float64(n), bytes)
		if n == 10_000 {
			report.Figure("idle_actor_bytes", bytes, bench.AtMost, 1536)
		}
		if n == 100_000 {
			report.Figure("idle_actor_bytes_at_100k", bytes, bench.AtMost, 1536)
			answered := 0
			for i := range kids {
				if _, err := tree.Ref(kids[i].ID).Ask(context.Background(), ping{}); err == nil {
					answered++
				}
			}
			report.Figure("idle_actors", float64(answered), bench.AtLeast, 100_000)
		}
		begin = time.Now()
		if err := stop(tree); err != nil {
			return err
		}
		report.Note("%d idle actors: stopped in %v, one after the other", n, time.Since(begin).Round(time.Millisecond))
		runtime.KeepAlive(kids)
	}
	return nil
}

// heap returns the bytes in use after collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
