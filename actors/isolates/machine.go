package isolates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
	"sophia/messages/problem"
)

// Limits of a run that the daemon holds, whatever the worker says.
const (
	DefaultTimeout = 10 * time.Second
	MaxTimeout     = 30 * time.Second
	MaxCalls       = 50
	KillAfter      = 250 * time.Millisecond // from asking the worker to stop to SIGKILL
	MaxCode        = 256 << 10              // bytes
	MaxInput       = 1 << 20                // bytes
	MaxValue       = 400_000                // bytes; the worker refuses above 100,000 characters
	MaxLogLines    = 201                    // the last one says that there were more
	MaxLogBytes    = 128 << 10
	heapLimit      = 8 << 20       // bytes; the worker's flag
	floodCalls     = 10 * MaxCalls // a worker that sends more is not the prelude any more
)

// machine is one run: what happened so far, and what to do when something
// happens. It has no goroutine and no clock; times are handed in. Durations of
// the run are active time: the clock stands still while the owner is asked.
type machine struct {
	limit   time.Duration
	program *script.Program // maps positions of its errors back
	methods map[string]bool // tools that may be called

	started  time.Time
	paused   int
	pausedAt time.Time
	slept    time.Duration // in finished pauses

	began    bool
	over     bool
	calls    []*callState
	byID     map[uint32]*callState
	refused  int
	pending  int // calls under way when the run ended
	logs     []string
	logBytes int
	memory   messages.RunMemory
	value    json.RawMessage
	failure  *messages.RunError
	stopping string // why the worker was asked to stop
	killAt   time.Time
	killed   bool
	ended    time.Duration
}

type callState struct {
	messages.RunCall
	id       uint32
	at       time.Duration // active
	wall     time.Time
	deadline time.Duration // active
	answered bool          // the snippet has its answer
	returned bool          // the daemon has its outcome
}

// What a machine wants done.
type (
	action any
	// startCall makes the call and reports back with returned.
	startCall struct {
		id   uint32
		tool string
		args json.RawMessage
	}
	// cancelCall ends the call's context.
	cancelCall struct{ id uint32 }
	// send writes a frame to the worker.
	send struct{ wire.Frame }
	// kill is SIGKILL.
	kill struct{}
)

// Reasons to stop a worker.
const (
	stopTimeout   = "timeout"
	stopCancelled = "cancelled"
)

func newMachine(now time.Time, req messages.RunRequest, program *script.Program) *machine {
	limit := time.Duration(req.TimeoutMS) * time.Millisecond
	if limit <= 0 {
		limit = DefaultTimeout
	}
	m := &machine{
		limit: min(limit, MaxTimeout), program: program, started: now, methods: map[string]bool{}, byID: map[uint32]*callState{},
		memory: messages.RunMemory{HeapLimit: heapLimit},
	}
	for _, method := range req.Methods {
		m.methods[method.Tool] = true
	}
	return m
}

// active is the run's own time.
func (m *machine) active(now time.Time) time.Duration {
	d := now.Sub(m.started) - m.slept
	if m.paused > 0 {
		d -= now.Sub(m.pausedAt)
	}
	return d
}

func (m *machine) pause(now time.Time) {
	if m.paused++; m.paused == 1 {
		m.pausedAt = now
	}
}

func (m *machine) resume(now time.Time) {
	if m.paused--; m.paused == 0 {
		m.slept += now.Sub(m.pausedAt)
	}
}

// frame takes what the worker sent.
func (m *machine) frame(now time.Time, f wire.Frame) []action {
	if m.over {
		return nil
	}
	if !m.began && f.Kind != wire.Began {
		return m.distrust(now, f.Kind)
	}
	switch f.Kind {
	case wire.Began:
		m.began = true
	case wire.Call:
		return m.call(now, f)
	case wire.Log:
		m.log(f.Payload)
	case wire.Stats:
		var memory messages.RunMemory
		if json.Unmarshal(f.Payload, &memory) == nil && memory.HeapUsed >= 0 {
			m.memory.HeapUsed = memory.HeapUsed
		}
	case wire.Done:
		if len(f.Payload) > MaxValue || len(f.Payload) > 0 && !json.Valid(f.Payload) {
			return m.distrust(now, f.Kind)
		}
		if len(f.Payload) > 0 {
			m.value = bytes.Clone(f.Payload)
		}
		return m.end(now, nil)
	case wire.Failed:
		var bad messages.RunError
		if json.Unmarshal(f.Payload, &bad) != nil {
			return m.distrust(now, f.Kind)
		}
		if m.stopping != "" {
			return m.end(now, m.stopped())
		}
		m.program.Locate(&bad, bad.Stack)
		return m.end(now, bounded(bad))
	default:
		return m.distrust(now, f.Kind)
	}
	return nil
}

// distrust ends a run whose worker does not speak the protocol.
func (m *machine) distrust(now time.Time, k wire.Kind) []action {
	m.killed = true
	return append(m.end(now, &messages.RunError{
		Kind: messages.KindCrash, Name: "WorkerError",
		Message: fmt.Sprintf("The worker sent what no worker sends here (%v) and was ended", k),
		Hint:    "The calls listed did happen. Look at them before you run the code again.",
	}), kill{})
}

func (m *machine) call(now time.Time, f wire.Frame) []action {
	if m.stopping != "" {
		return nil // it will not be there for the answer
	}
	answer := func(p *problem.Error) []action {
		if m.refused++; m.refused > floodCalls {
			return m.distrust(now, f.Kind)
		}
		return []action{send{failed(f.ID, p)}}
	}
	switch {
	case m.byID[f.ID] != nil:
		return m.distrust(now, f.Kind)
	case len(m.calls) >= MaxCalls:
		return answer(problem.New("call_budget_exceeded", "A run may make at most %d Sophia calls", MaxCalls))
	case !m.methods[f.Name]:
		return answer(problem.New("unknown_tool", "%s cannot be called inside a run", f.Name))
	case !json.Valid(f.Payload):
		return answer(problem.New("invalid_arguments", "The arguments are not JSON"))
	}
	at := m.active(now)
	c := &callState{id: f.ID, at: at, wall: now, RunCall: messages.RunCall{Tool: f.Name}}
	// A call that hangs fails while the snippet still has time to say so.
	c.deadline = max(m.limit*9/10, at+(m.limit-at)/2)
	m.calls = append(m.calls, c)
	m.byID[f.ID] = c
	return []action{startCall{f.ID, f.Name, f.Payload}}
}

// returned takes a call's outcome.
func (m *machine) returned(now time.Time, id uint32, result json.RawMessage, err error) []action {
	c := m.byID[id]
	if c == nil || c.returned {
		return nil
	}
	c.returned = true
	c.MS = milliseconds(now.Sub(c.wall))
	p := problem.Of(err)
	if p == nil && !json.Valid(result) {
		p = problem.New("internal", "%s returned what is not JSON", c.Tool)
	}
	if p == nil && len(result) > wire.MaxFrame-64 {
		p = problem.New("result_too_large", "The result of %s is %d bytes, and at most %d fit into a run", c.Tool, len(result), wire.MaxFrame-64).
			WithHint("Ask for fewer rows or fields: limit, compact, fields.")
	}
	switch {
	case p == nil:
		c.OK, c.Code = true, "" // also when the snippet was told that it took too long
	case !c.answered:
		c.Code = p.Code
	}
	if m.over || m.stopping != "" || c.answered {
		return nil
	}
	c.answered = true
	if p != nil {
		return []action{send{failed(id, p)}}
	}
	return []action{send{wire.Frame{Kind: wire.Result, OK: true, ID: id, Payload: result}}}
}

// tick is called when the time of next has come, or whenever.
func (m *machine) tick(now time.Time) []action {
	if m.over {
		return nil
	}
	if m.stopping != "" {
		if !m.killed && !now.Before(m.killAt) {
			m.killed = true
			return []action{kill{}}
		}
		return nil
	}
	if m.paused > 0 {
		return nil
	}
	at := m.active(now)
	if at >= m.limit {
		return m.stop(now, stopTimeout)
	}
	var do []action
	for _, c := range m.calls {
		if !c.answered && !c.returned && at >= c.deadline {
			c.answered, c.Code = true, "call_timeout"
			p := problem.New("call_timeout", "%s did not answer within %d ms", c.Tool, (at-c.at).Milliseconds()).
				WithHint("Ask for less per call, or give the run more time with timeout_ms (at most %d).", MaxTimeout.Milliseconds())
			do = append(do, cancelCall{c.id}, send{failed(c.id, p)})
		}
	}
	return do
}

// next is when tick has something to do; false when only an event can change
// anything.
func (m *machine) next(now time.Time) (time.Time, bool) {
	switch {
	case m.over || m.killed:
		return time.Time{}, false
	case m.stopping != "":
		return m.killAt, true
	case m.paused > 0:
		return time.Time{}, false
	}
	soonest := m.limit
	for _, c := range m.calls {
		if !c.answered && !c.returned {
			soonest = min(soonest, c.deadline)
		}
	}
	return now.Add(soonest - m.active(now)), true
}

// stop asks the worker to end; SIGKILL follows if it does not.
func (m *machine) stop(now time.Time, why string) []action {
	if m.over || m.stopping != "" {
		return nil
	}
	m.stopping = why
	m.killAt = now.Add(KillAfter)
	m.ended = m.active(now)
	return []action{send{wire.Frame{Kind: wire.Stop, Name: why}}}
}

// exited takes the end of the process. It reports false when the run had not
// begun, so that it may be given to another worker.
func (m *machine) exited(now time.Time, x Exit) (do []action, began bool) {
	switch {
	case m.over:
		return nil, true
	case m.stopping != "":
		return m.end(now, m.stopped()), true
	case !m.began:
		return nil, false
	}
	return m.end(now, post(x)), true
}

// end fixes the outcome and cancels what is still under way.
func (m *machine) end(now time.Time, bad *messages.RunError) []action {
	m.over, m.failure = true, bad
	if m.stopping == "" {
		m.ended = m.active(now)
	}
	var do []action
	for _, c := range m.calls {
		if !c.returned && !c.answered {
			m.pending++
			c.Code = "outcome_unknown" // until it returns
			do = append(do, cancelCall{c.id})
		}
	}
	return do
}

// result is the outcome in its one shape.
func (m *machine) result() messages.RunResult {
	r := messages.RunResult{
		Status: messages.RunOK, Value: m.value, Logs: slices.Clone(m.logs), Calls: make([]messages.RunCall, 0, len(m.calls)),
		SophiaCalls: len(m.calls), Pending: m.pending, ExecutionTimeMS: milliseconds(m.ended), Memory: m.memory,
	}
	if r.Logs == nil {
		r.Logs = []string{}
	}
	for _, c := range m.calls {
		r.Calls = append(r.Calls, c.RunCall)
	}
	if m.failure != nil {
		r.Status, r.Value, r.Error = messages.RunFailed, nil, m.failure
	}
	return r
}

func (m *machine) log(line []byte) {
	if len(m.logs) >= MaxLogLines || m.logBytes+len(line) > MaxLogBytes {
		return
	}
	m.logBytes += len(line)
	m.logs = append(m.logs, string(bytes.ToValidUTF8(line, []byte("\ufffd"))))
}

func failed(id uint32, p *problem.Error) wire.Frame {
	b, err := json.Marshal(p)
	if err != nil || len(b) > wire.MaxFrame-64 {
		b = []byte(`{"code":"internal","message":"The error is too large to show"}`)
	}
	return wire.Frame{Kind: wire.Result, ID: id, Payload: b}
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
