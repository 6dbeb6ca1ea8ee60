package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Contestant is one side of a comparison. Run does one round's work and returns
// what it measured: a time, a rate, bytes. The unit is the caller's.
type Contestant struct {
	Name string
	Run  func() (float64, error)
}

// Rounds are the measurements of an interleaved run, by contestant.
type Rounds struct {
	names  []string
	values map[string][]float64
}

// Interleave runs each contestant once a round, starting with another one each
// round, after one round that is not counted. It ends at the first error.
func Interleave(rounds int, contestants ...Contestant) (*Rounds, error) {
	if rounds < 1 || len(contestants) == 0 {
		return nil, errors.New("bench: nothing to run")
	}
	r := &Rounds{values: make(map[string][]float64)}
	for _, c := range contestants {
		if slices.Contains(r.names, c.Name) {
			return nil, fmt.Errorf("bench: two contestants are called %q", c.Name)
		}
		r.names = append(r.names, c.Name)
	}
	for round := range rounds + 1 {
		for i := range contestants {
			c := contestants[(i+round)%len(contestants)]
			v, err := c.Run()
			if err != nil {
				return nil, fmt.Errorf("bench: %s: %w", c.Name, err)
			}
			if round > 0 {
				r.values[c.Name] = append(r.values[c.Name], v)
			}
		}
	}
	return r, nil
}

// Values returns what the contestant measured, round by round.
func (r *Rounds) Values(name string) []float64 { return slices.Clone(r.values[name]) }

// Median is the median over the rounds; NaN for an unknown contestant.
func (r *Rounds) Median(name string) float64 { return Median(r.values[name]) }

// Ratio is the median of the rounds' ratios of a to b.
func (r *Rounds) Ratio(a, b string) float64 {
	va, vb := r.values[a], r.values[b]
	if len(va) != len(vb) {
		return math.NaN()
	}
	ratios := make([]float64, len(va))
	for i := range va {
		ratios[i] = va[i] / vb[i]
	}
	return Median(ratios)
}

// Median returns the middle value, or the mean of the two in the middle; NaN of none.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile returns the q-quantile, 0 ≤ q ≤ 1, linear between neighbours; NaN of none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Clone(values)
	slices.Sort(v)
	at := q * float64(len(v)-1)
	lo := int(at)
	if lo+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[lo] + (at-float64(lo))*(v[lo+1]-v[lo])
}
