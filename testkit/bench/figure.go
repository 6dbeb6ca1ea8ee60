package bench

import (
	"fmt"
	"io"
	"strconv"
)

// Op is how a value is held against its goal.
type Op string

const (
	AtMost  Op = "<="
	Below   Op = "<"
	AtLeast Op = ">="
	Above   Op = ">"
)

// Figure is one measured number and its goal.
type Figure struct {
	Name   string // of the bench
	Metric string
	Value  float64
	Op     Op
	Goal   float64
}

// OK reports whether the goal is met. NaN meets none.
func (f Figure) OK() bool {
	switch f.Op {
	case AtMost:
		return f.Value <= f.Goal
	case Below:
		return f.Value < f.Goal
	case AtLeast:
		return f.Value >= f.Goal
	case Above:
		return f.Value > f.Goal
	}
	return false
}

func (f Figure) String() string {
	verdict := "short"
	if f.OK() {
		verdict = "ok"
	}
	return fmt.Sprintf("figure %s.%s %s goal %s%s %s", f.Name, f.Metric, number(f.Value), f.Op, number(f.Goal), verdict)
}

// number writes four significant digits, and whole numbers in full.
func number(v float64) string {
	if v >= 1000 || v <= -1000 || v == float64(int64(v)) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Report prints what a bench finds as it goes and its figures at the end.
type Report struct {
	name    string
	w       io.Writer
	figures []Figure
}

// NewReport returns the report of a bench.
func NewReport(name string, w io.Writer) *Report { return &Report{name: name, w: w} }

// Note prints a line for people.
func (r *Report) Note(format string, args ...any) { fmt.Fprintf(r.w, format+"\n", args...) }

// Figure keeps a figure for the end.
func (r *Report) Figure(metric string, value float64, op Op, goal float64) {
	r.figures = append(r.figures, Figure{Name: r.name, Metric: metric, Value: value, Op: op, Goal: goal})
}

// Close prints the figures, one a line.
func (r *Report) Close() error {
	for _, f := range r.figures {
		if _, err := fmt.Fprintln(r.w, f); err != nil {
			return err
		}
	}
	return nil
}
