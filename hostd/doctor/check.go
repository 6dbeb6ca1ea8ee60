package doctor

import "fmt"

// State is how a check came out.
type State string

const (
	OK   State = "ok"
	Warn State = "warn" // it works, and something is missing
	Fail State = "fail" // it does not work, or is not safe
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"` // stable; dots separate a part from its whole
	State  State  `json:"state"`
	Detail string `json:"detail"`         // what was found and, unless ok, what that costs
	Mend   string `json:"mend,omitempty"` // what to do; empty when ok
}

// Report is all checks, in the order in which they were made.
type Report struct {
	Checks []Check `json:"checks"`
	OK     int     `json:"ok"`
	Warn   int     `json:"warn"`
	Fail   int     `json:"fail"`
}

// NewReport counts.
func NewReport(checks []Check) Report {
	r := Report{Checks: checks}
	if r.Checks == nil {
		r.Checks = []Check{}
	}
	for _, c := range checks {
		switch c.State {
		case OK:
			r.OK++
		case Warn:
			r.Warn++
		default:
			r.Fail++
		}
	}
	return r
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, State: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(name, mend, format string, args ...any) Check {
	return Check{Name: name, State: Warn, Detail: fmt.Sprintf(format, args...), Mend: mend}
}

func fail(name, mend, format string, args ...any) Check {
	return Check{Name: name, State: Fail, Detail: fmt.Sprintf(format, args...), Mend: mend}
}
