package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"sophia/testkit/bench"
)

type measure struct {
	ctx             context.Context
	rounds          int
	program, script string
	ours            *pool
	theirs          *peer
	report          *bench.Report
}

func timed(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return float64(time.Since(start)) / float64(time.Millisecond), err
}

func check(got, want string) error {
	if got != want {
		return fmt.Errorf("returned %s, not %s", got, want)
	}
	return nil
}

var want = map[string]string{trivial: "2", tenCalls: "30", sequential: "150"}

// warm: one run when everything is up.
func (m *measure) warm(metric, code string, goal float64) error {
	r, err := bench.Interleave(m.rounds,
		bench.Contestant{Name: "ours", Run: func() (float64, error) {
			if err := m.ours.settle(m.ctx, 2); err != nil {
				return 0, err
			}
			return timed(func() error {
				v, err := m.ours.run(m.ctx, code)
				if err != nil {
					return err
				}
				return check(v, want[code])
			})
		}},
		bench.Contestant{Name: "theirs", Run: func() (float64, error) {
			return timed(func() error {
				v, err := m.theirs.run(code)
				if err != nil {
					return err
				}
				return check(v, want[code])
			})
		}})
	if err != nil {
		return err
	}
	m.report.Note("%s: ours %.2f ms, isolated-vm %.2f ms", metric, r.Median("ours"), r.Median("theirs"))
	m.report.Figure(metric, r.Ratio("ours", "theirs"), bench.AtMost, goal)
	return nil
}

// cold: from nothing to the first result.
func (m *measure) cold() error {
	r, err := bench.Interleave(max(3, m.rounds/3),
		bench.Contestant{Name: "ours", Run: func() (float64, error) {
			return timed(func() error {
				p, err := startPool(m.program, 1)
				if err != nil {
					return err
				}
				defer p.stop()
				_, err = p.run(m.ctx, trivial)
				return err
			})
		}},
		bench.Contestant{Name: "theirs", Run: func() (float64, error) {
			return timed(func() error {
				p, err := startPeer(m.script)
				if err != nil {
					return err
				}
				defer p.stop()
				_, err = p.run(trivial)
				return err
			})
		}})
	if err != nil {
		return err
	}
	m.report.Note("cold: ours %.1f ms, isolated-vm %.1f ms", r.Median("ours"), r.Median("theirs"))
	m.report.Figure("cold_ratio", r.Ratio("ours", "theirs"), bench.AtMost, 0.1)
	return nil
}

// rate: runs a second with ten calls each. The peer is one process that all runs
// share, and runs one at a time; ours, a process a run, has two clients.
func (m *measure) rate() error {
	const runs = 40
	return m.rates("rate_ratio", "isolated-vm",
		func() (float64, error) { return perSecond(runs, 2, m.ourTen) },
		func() (float64, error) {
			return perSecond(runs, 1, func() error {
				_, err := m.theirs.run(tenCalls)
				return err
			})
		})
}

// rateSameIsolation: the same where both have a process a run, and two clients.
func (m *measure) rateSameIsolation() error {
	return m.rates("rate_same_isolation_ratio", "isolated-vm in a Node process of its own",
		func() (float64, error) { return perSecond(40, 2, m.ourTen) },
		func() (float64, error) {
			return perSecond(8, 2, func() error {
				p, err := startPeer(m.script)
				if err != nil {
					return err
				}
				defer p.stop()
				v, err := p.run(tenCalls)
				if err != nil {
					return err
				}
				return check(v, want[tenCalls])
			})
		})
}

func (m *measure) ourTen() error {
	v, err := m.ours.run(m.ctx, tenCalls)
	if err != nil {
		return err
	}
	return check(v, want[tenCalls])
}

func (m *measure) rates(metric, peer string, ours, theirs func() (float64, error)) error {
	r, err := bench.Interleave(max(3, m.rounds/5), bench.Contestant{Name: "ours", Run: ours}, bench.Contestant{Name: "theirs", Run: theirs})
	if err != nil {
		return err
	}
	m.report.Note("%s, runs a second: ours %.0f, %s %.0f", metric, r.Median("ours"), peer, r.Median("theirs"))
	m.report.Figure(metric, r.Ratio("ours", "theirs"), bench.AtLeast, 2)
	return nil
}

// perSecond is how many runs a second so many clients get done.
func perSecond(runs, clients int, run func() error) (float64, error) {
	start := time.Now()
	work := make(chan struct{}, runs)
	for range runs {
		work <- struct{}{}
	}
	close(work)
	errs := make(chan error, runs)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range work {
				errs <- run()
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(runs) / took.Seconds(), nil
}

// memory: an idle worker against the idle peer.
func (m *measure) memory() error {
	if err := m.ours.settle(m.ctx, 2); err != nil {
		return err
	}
	kb, n, err := idleKB()
	if err != nil || n == 0 {
		return fmt.Errorf("memory of %d workers: %w", n, err)
	}
	theirs, err := pss(strconv.Itoa(m.theirs.cmd.Process.Pid))
	if err != nil {
		return err
	}
	m.report.Note("idle memory: %d workers %.1f MB each, isolated-vm %.1f MB", n, float64(kb)/float64(n)/1024, float64(theirs)/1024)
	m.report.Figure("idle_memory_ratio", float64(kb)/float64(n)/float64(theirs), bench.AtMost, 0.4)
	return nil
}

// growth: nothing of a run is left in the daemon.
func (m *measure) growth(runs int) error {
	state := func() (heap, goroutines, fds float64) {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		open, _ := os.ReadDir("/proc/self/fd")
		return float64(s.HeapAlloc), float64(runtime.NumGoroutine()), float64(len(open))
	}
	var before [3]float64
	for i := range runs {
		if i == runs/10 { // after the first tenth, everything is as large as it gets
			if err := m.ours.settle(m.ctx, 2); err != nil {
				return err
			}
			before[0], before[1], before[2] = state()
		}
		if _, err := m.ours.run(m.ctx, trivial); err != nil {
			return err
		}
	}
	if err := m.ours.settle(m.ctx, 2); err != nil {
		return err
	}
	heap, goroutines, fds := state()
	m.report.Note("after %d runs: heap %+.0f kB, goroutines %+.0f, descriptors %+.0f", runs, (heap-before[0])/1024, goroutines-before[1], fds-before[2])
	m.report.Figure("growth_bytes_per_run", max(0, heap-before[0])/float64(runs), bench.AtMost, 64)
	m.report.Figure("growth_descriptors", fds-before[2], bench.AtMost, 0)
	return nil
}
