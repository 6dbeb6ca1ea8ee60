package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"sophia/hostd/terminal/vt"
	"sophia/testkit/bench"
)

type measure struct {
	*rig
	rounds, bytes, keys int
	report              *bench.Report
}

// tracker is how fast modes are followed, in MB/s: the slowest of three kinds
// of output counts.
func (m *measure) tracker() error {
	kinds := map[string][]byte{
		"an agent's output":          workload(),
		"plain text":                 []byte(strings.Repeat("line 0000 "+strings.Repeat("x", 60)+"\r\n", 100)),
		"a screen painted in pieces": []byte(strings.Repeat("\x1b[12;1H\x1b[38;5;245m│\x1b[39m some words here, as in a list of things \x1b[1mbold\x1b[22m\x1b[K", 80)),
	}
	slowest := 0.0
	for name, data := range kinds {
		r, err := bench.Interleave(m.rounds, bench.Contestant{Name: name, Run: func() (float64, error) {
			t := vt.NewTracker()
			n := 64 << 20 / len(data)
			begin := time.Now()
			for range n {
				t.Write(data)
			}
			return float64(n*len(data)) / 1e6 / time.Since(begin).Seconds(), nil
		}})
		if err != nil {
			return err
		}
		rate := r.Median(name)
		m.report.Note("mode tracker, %s: %.0f MB/s", name, rate)
		if slowest == 0 || rate < slowest {
			slowest = rate
		}
	}
	m.report.Figure("tracker_mb_s", slowest, bench.AtLeast, 200)
	return nil
}

// rate is what the agent can write, in MB/s.
func (m *measure) rate(k kind, viewer, stalled bool) func() (float64, error) {
	return func() (float64, error) {
		s, err := m.start(k, viewer, false, "agent", fmt.Sprint(m.bytes))
		if err != nil {
			return 0, err
		}
		defer s.close()
		s.stalled.Store(stalled)
		took, blocked, err := s.control.write(blockedAfter)
		if err != nil || blocked {
			return 0, err
		}
		return float64(m.bytes) / 1e6 / took.Seconds(), nil
	}
}

// blockedAfter is when an agent counts as blocked. Nobody needs a tenth of it.
const blockedAfter = 20 * time.Second

func (m *measure) throughput() error {
	r, err := bench.Interleave(m.rounds,
		bench.Contestant{Name: "direct", Run: m.rate(direct, true, false)},
		bench.Contestant{Name: "ours", Run: m.rate(ours, true, false)},
		bench.Contestant{Name: "dtach", Run: m.rate(dtach, true, false)},
		bench.Contestant{Name: "tmux", Run: m.rate(tmux, true, false)})
	if err != nil {
		return err
	}
	m.report.Note("an agent writes, somebody looks: PTY read directly %.0f MB/s, ours %.0f, dtach %.0f, tmux %.0f",
		r.Median("direct"), r.Median("ours"), r.Median("dtach"), r.Median("tmux"))
	m.report.Figure("throughput_ratio", r.Ratio("ours", "direct"), bench.AtLeast, 0.9)
	m.report.Figure("throughput_dtach_ratio", r.Ratio("ours", "dtach"), bench.AtLeast, 1)
	m.report.Figure("throughput_tmux_ratio", r.Ratio("ours", "tmux"), bench.AtLeast, 1)
	return nil
}

func (m *measure) stalled() error {
	r, err := bench.Interleave(m.rounds,
		bench.Contestant{Name: "nobody", Run: m.rate(ours, false, false)},
		bench.Contestant{Name: "stalled", Run: m.rate(ours, true, true)})
	if err != nil {
		return err
	}
	m.report.Note("ours: nobody looks %.0f MB/s, the viewer reads nothing %.0f", r.Median("nobody"), r.Median("stalled"))
	for name, k := range map[string]kind{"dtach": dtach, "tmux": tmux} {
		v, err := m.rate(k, true, true)()
		if err != nil {
			return err
		}
		if v == 0 {
			m.report.Note("%s: a viewer that reads nothing blocks the agent", name)
		} else {
			m.report.Note("%s: with a viewer that reads nothing %.0f MB/s", name, v)
		}
	}
	m.report.Figure("stalled_ratio", r.Ratio("stalled", "nobody"), bench.AtLeast, 0.9)
	return nil
}

// signs are keys that no control sequence has in it.
const signs = "#%&*+=@_"

// typed is the p99 from a key to its echo, in microseconds.
func (m *measure) typed(k kind, all *[]float64) func() (float64, error) {
	return func() (float64, error) {
		s, err := m.start(k, true, true, "echo")
		if err != nil {
			return 0, err
		}
		defer s.close()
		if _, err := s.control.r.ReadByte(); err != nil { // raw
			return 0, err
		}
		var times []float64
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		const warm = 50
		for i := range warm + m.keys {
			<-pace.C
			key := signs[i%len(signs) : i%len(signs)+1]
			begin := time.Now()
			if _, err := s.glass.WriteString(key); err != nil {
				return 0, err
			}
			if err := s.until(key); err != nil {
				return 0, fmt.Errorf("key %d: %w", i, err)
			}
			if i >= warm {
				times = append(times, float64(time.Since(begin))/1e3)
			}
		}
		*all = append(*all, times...)
		return bench.Quantile(times, 0.99), nil
	}
}

// until waits until the glass shows a key.
func (s *stage) until(key string) error {
	limit := time.After(10 * time.Second)
	for {
		select {
		case b := <-s.chunks:
			if bytes.Contains(b, []byte(key)) {
				return nil
			}
		case <-limit:
			return errors.New("no echo")
		}
	}
}

func (m *measure) echo() error {
	kinds := []struct {
		name string
		kind kind
		all  []float64
	}{{name: "direct", kind: direct}, {name: "ours", kind: ours}, {name: "ours, in frames", kind: frames}, {name: "dtach", kind: dtach}, {name: "tmux", kind: tmux}}
	var contestants []bench.Contestant
	for i := range kinds {
		k := &kinds[i]
		contestants = append(contestants, bench.Contestant{Name: k.name, Run: m.typed(k.kind, &k.all)})
	}
	r, err := bench.Interleave(m.rounds, contestants...)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		m.report.Note("key to echo, %s: p50 %.0f µs, p99 %.0f µs", k.name, bench.Quantile(k.all, 0.5), r.Median(k.name))
	}
	m.report.Figure("echo_p99_ratio", r.Ratio("ours", "direct"), bench.AtMost, 1.5)
	m.report.Figure("echo_p99_dtach_ratio", r.Ratio("ours", "dtach"), bench.AtMost, 1)
	return nil
}
