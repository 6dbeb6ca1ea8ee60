package bench_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"sophia/testkit/bench"
)

func TestInterleave_RotatesAndLeavesTheFirstRoundOut(t *testing.T) {
	var order strings.Builder
	n := 0.0
	contestant := func(name string) bench.Contestant {
		return bench.Contestant{Name: name, Run: func() (float64, error) {
			order.WriteString(name)
			n++
			return n, nil
		}}
	}
	r, err := bench.Interleave(2, contestant("a"), contestant("b"))
	if err != nil {
		t.Fatal(err)
	}
	if order.String() != "abbaab" {
		t.Errorf("ran %s, want abbaab: each round starts with another one", &order)
	}
	if got := r.Values("a"); !slices.Equal(got, []float64{4, 5}) {
		t.Errorf("a measured %v, want its 2 counted rounds [4 5]", got)
	}
}

func TestInterleave_RatioIsTheMedianOfRounds(t *testing.T) {
	// The machine is ten times slower in the last round; ours is always twice the peer.
	ours, peer := []float64{1, 2, 2, 20}, []float64{9, 1, 1, 10}
	take := func(v *[]float64) func() (float64, error) {
		return func() (float64, error) {
			x := (*v)[0]
			*v = (*v)[1:]
			return x, nil
		}
	}
	r, err := bench.Interleave(3, bench.Contestant{Name: "ours", Run: take(&ours)}, bench.Contestant{Name: "peer", Run: take(&peer)})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Ratio("ours", "peer"); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if !math.IsNaN(r.Ratio("ours", "nobody")) {
		t.Error("a ratio to nobody is a number")
	}
}

func TestInterleave_EndsAtAnError(t *testing.T) {
	sad := errors.New("sad")
	_, err := bench.Interleave(3, bench.Contestant{Name: "x", Run: func() (float64, error) { return 0, sad }})
	if !errors.Is(err, sad) {
		t.Errorf("got %v", err)
	}
	if _, err := bench.Interleave(1); err == nil {
		t.Error("nobody ran and nobody said so")
	}
}

func TestFigure_Line(t *testing.T) {
	for _, c := range []struct {
		f    bench.Figure
		want string
	}{
		{bench.Figure{Name: "supervise", Metric: "send_ratio", Value: 1.23456, Op: bench.AtMost, Goal: 1.5}, "figure supervise.send_ratio 1.235 goal <=1.5 ok"},
		{bench.Figure{Name: "supervise", Metric: "restart_ratio", Value: 1, Op: bench.Below, Goal: 1}, "figure supervise.restart_ratio 1 goal <1 short"},
		{bench.Figure{Name: "mcp", Metric: "calls", Value: 12345.6, Op: bench.AtLeast, Goal: 10000}, "figure mcp.calls 12346 goal >=10000 ok"},
		{bench.Figure{Name: "mcp", Metric: "gain", Value: 2, Op: bench.Above, Goal: 2}, "figure mcp.gain 2 goal >2 short"},
		{bench.Figure{Name: "mcp", Metric: "nothing", Value: math.NaN(), Op: bench.AtMost, Goal: 2}, "figure mcp.nothing NaN goal <=2 short"},
	} {
		if got := c.f.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestReport_FiguresComeLast(t *testing.T) {
	var out strings.Builder
	r := bench.NewReport("x", &out)
	r.Figure("a", 1, bench.AtMost, 2)
	r.Note("measured %d", 7)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "measured 7\nfigure x.a 1 goal <=2 ok\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
