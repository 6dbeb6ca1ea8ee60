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

// rate: runs a second with ten calls each, one after the other per client. The
// peer is one process and runs one at a time; ours has two clients.
func (m *measure) rate() error {
	const runs = 40
	r, err := bench.Interleave(max(3, m.rounds/5),
		bench.Contestant{Name: "ours", Run: func() (float64, error) {
			start := time.Now()
			errs := make(chan error, runs)
			work := make(chan struct{}, runs)
			for range runs {
				work <- struct{}{}
			}
			close(work)
			var clients sync.WaitGroup
			for range 2 {
				clients.Go(func() {
					for range work {
						_, err := m.ours.run(m.ctx, tenCalls)
						errs <- err
					}
				})
			}
			clients.Wait()
			for range runs {
				if err := <-errs; err != nil {
					return 0, err
				}
			}
			return runs / time.Since(start).Seconds(), nil
		}},
		bench.Contestant{Name: "theirs", Run: func() (float64, error) {
			start := time.Now()
			for range runs {
				if _, err := m.theirs.run(tenCalls); err != nil {
					return 0, err
				}
			}
			return runs / time.Since(start).Seconds(), nil
		}})
	if err != nil {
		return err
	}
	m.report.Note("runs a second: ours %.0f, isolated-vm %.0f", r.Median("ours"), r.Median("theirs"))
	m.report.Figure("rate_ratio", r.Ratio("ours", "theirs"), bench.AtLeast, 2)
	return nil
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
