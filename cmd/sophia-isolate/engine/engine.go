package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	v8 "rogchap.com/v8go"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
)

// HeapLimit is V8's heap in bytes.
const HeapLimit = 8 << 20

// flags: no code is ever generated at run time (W^X holds for the whole
// process), and a regular expression that backtracks excessively is handed to
// the linear-time engine.
var flags = []string{
	"--max-heap-size=8",
	"--jitless",
	"--single-threaded",
	"--no-expose-wasm",
	"--disallow-code-generation-from-strings",
	"--enable-experimental-regexp-engine-on-excessive-backtracks",
	"--stack-size=900",
}

// Engine is one isolate with the prelude in it, good for one run.
type Engine struct {
	iso *v8.Isolate
	ctx *v8.Context
	out io.Writer

	offer, settle, fire, start *v8.Function

	over    bool
	result  wire.Frame // Done or Failed
	calls   int        // sent and not answered
	timers  map[int]*time.Timer
	fired   chan int
	lines   int
	bytes   int
	failure error // of writing to the daemon
	trial   bool  // see Warm

	stopped atomic.Pointer[string]
}

// New starts V8. It must be called on the goroutine that calls Run, and never on
// the main thread.
func New(out io.Writer) (*Engine, error) {
	v8.SetFlags(flags...)
	return build(&Engine{iso: v8.NewIsolate(), out: out})
}

// build gives an engine its context, with the prelude in it.
func build(e *Engine) (*Engine, error) {
	e.timers, e.fired = map[int]*time.Timer{}, make(chan int, Timers)
	host := v8.NewObjectTemplate(e.iso)
	for name, f := range e.host() {
		if err := host.Set(name, v8.NewFunctionTemplate(e.iso, f), v8.ReadOnly); err != nil {
			return nil, err
		}
	}
	e.ctx = v8.NewContext(e.iso)
	if err := e.load(host); err != nil {
		return nil, fmt.Errorf("engine: prelude: %w", err)
	}
	return e, nil
}

// load runs the prelude, whose value is a function that takes the host's.
func (e *Engine) load(host *v8.ObjectTemplate) error {
	program, _, err := compilePrelude(e.iso, preludeCache)
	if err != nil {
		return err
	}
	v, err := program.Run(e.ctx)
	if err != nil {
		return err
	}
	f, err := v.AsFunction()
	if err != nil {
		return err
	}
	object, err := host.NewInstance(e.ctx)
	if err != nil {
		return err
	}
	limits, err := json.Marshal(limits())
	if err != nil {
		return err
	}
	text, err := v8.NewValue(e.iso, string(limits))
	if err != nil {
		return err
	}
	v, err = f.Call(v8.Undefined(e.iso), object, text)
	if err != nil {
		return err
	}
	bridge, err := v.AsObject()
	if err != nil {
		return err
	}
	for name, to := range map[string]**v8.Function{"offer": &e.offer, "settle": &e.settle, "fire": &e.fire, "start": &e.start} {
		v, err := bridge.Get(name)
		if err != nil {
			return err
		}
		if *to, err = v.AsFunction(); err != nil {
			return err
		}
	}
	return nil
}

// Engine version and heap, for the worker's report.
func (e *Engine) Report() wire.Report {
	return wire.Report{HeapLimit: int64(e.iso.GetHeapStatistics().HeapSizeLimit), Engine: v8.Version()}
}

// Terminate stops the snippet from any goroutine. The frame that asked for it
// must reach the loop as well, which may be waiting.
func (e *Engine) Terminate(why string) {
	if e.stopped.CompareAndSwap(nil, &why) {
		e.iso.TerminateExecution()
	}
}

// ErrClosed says that the daemon closed the pipe before the run was over.
var ErrClosed = errors.New("engine: the daemon is gone")

// Job is the snippet, with what it gets.
type Job struct {
	JS    string
	Sole  bool   // see script.Program
	Input string // JSON, "" for none
}

// Accept reads what comes before the run, and the run. It reads from the pipe
// itself: nothing else can come in between, and a goroutine less has to wake up.
func (e *Engine) Accept(in io.Reader) (Job, error) {
	var job Job
	for {
		f, err := wire.Read(in)
		if err != nil {
			return job, err
		}
		switch f.Kind {
		case wire.Methods:
			if _, err := e.call(e.offer, string(f.Payload)); err != nil {
				return job, fmt.Errorf("engine: methods: %w", err)
			}
		case wire.Input:
			job.Input = string(f.Payload)
		case wire.Run:
			job.JS, job.Sole = string(f.Payload), f.OK
			return job, nil
		default:
			return job, fmt.Errorf("engine: %v before the run", f.Kind)
		}
	}
}

// Run runs the job and ends when it has written Done or Failed.
func (e *Engine) Run(job Job, frames <-chan wire.Frame) error {
	if err := e.write(wire.Frame{Kind: wire.Began}); err != nil {
		return err
	}
	e.begin(job)
	return e.loop(frames)
}

func (e *Engine) begin(job Job) {
	v, err := e.ctx.RunScript(job.JS, script.Name)
	if err != nil {
		e.rejected(err)
		return
	}
	f, err := v.AsFunction()
	if err != nil {
		e.fail(&messages.RunError{Kind: messages.KindSyntax, Name: "SyntaxError", Message: "The code is not a program"})
		return
	}
	if _, err := e.call(e.start, f, job.Sole, job.Input); err != nil {
		e.interrupted(err)
	}
}

// rejected explains what the parser of types accepted and V8 did not.
func (e *Engine) rejected(err error) {
	var js *v8.JSError
	if e.terminated() || !errors.As(err, &js) {
		return
	}
	e.fail(&messages.RunError{
		Kind: messages.KindSyntax, Name: "SyntaxError", Message: strings.TrimPrefix(js.Message, "SyntaxError: "),
		Stack: []string{"    at " + js.Location},
	})
}

// interrupted is for errors out of the prelude: it catches all that a snippet
// throws, so what is left is a termination.
func (e *Engine) interrupted(err error) {
	if !e.terminated() {
		e.fail(&messages.RunError{Kind: messages.KindRuntime, Name: "Error", Message: err.Error()})
	}
}

func (e *Engine) loop(frames <-chan wire.Frame) error {
	for {
		if !e.over {
			e.ctx.PerformMicrotaskCheckpoint()
		}
		if !e.terminated() && !e.over && e.calls == 0 && len(e.timers) == 0 {
			e.fail(&messages.RunError{Kind: messages.KindRuntime, Name: "NeverSettled",
				Message: "The code waits for a promise that nothing will settle: no Sophia call and no timer is under way",
				Hint:    "Look for a `new Promise` whose resolve is never called."})
		}
		switch {
		case e.failure != nil:
			return e.failure
		case e.over:
			return e.end()
		}
		select {
		case f, open := <-frames:
			if !open {
				return ErrClosed
			}
			e.receive(f)
		case id := <-e.fired:
			if _, waiting := e.timers[id]; waiting {
				delete(e.timers, id)
				if _, err := e.call(e.fire, int32(id)); err != nil {
					e.interrupted(err)
				}
			}
		}
	}
}

func (e *Engine) receive(f wire.Frame) {
	switch f.Kind {
	case wire.Result:
		e.calls--
		if _, err := e.call(e.settle, int32(f.ID), f.OK, string(f.Payload)); err != nil {
			e.interrupted(err)
		}
	case wire.Stop:
		e.Terminate(f.Name)
	}
}

// terminated ends the run when something stopped it from outside the snippet.
func (e *Engine) terminated() bool {
	switch why := e.stopped.Load(); {
	case e.over && why == nil:
		return false
	case why != nil:
		e.fail(&messages.RunError{Kind: *why, Message: "The run was stopped"})
		return true
	case heapLimitHit():
		e.fail(OutOfMemory())
		return true
	}
	return false
}

func (e *Engine) fail(bad *messages.RunError) {
	if e.over {
		return
	}
	b, err := json.Marshal(bad)
	if err != nil {
		e.failure = err
		return
	}
	e.over, e.result = true, wire.Frame{Kind: wire.Failed, Payload: b}
}

func (e *Engine) end() error {
	stats := e.iso.GetHeapStatistics()
	b, err := json.Marshal(messages.RunMemory{HeapUsed: int64(stats.UsedHeapSize), HeapLimit: HeapLimit})
	if err != nil {
		return err
	}
	// One write: the daemon wakes up once.
	both, err := wire.Append(nil, wire.Frame{Kind: wire.Stats, Payload: b})
	if err != nil {
		return err
	}
	if both, err = wire.Append(both, e.result); err != nil {
		return err
	}
	_, err = e.out.Write(both)
	return err
}

func (e *Engine) write(f wire.Frame) error {
	err := wire.Write(e.out, f)
	if err != nil && e.failure == nil {
		e.failure = err
	}
	return err
}

// call enters V8. Arguments are strings, int32s, bools and functions.
func (e *Engine) call(f *v8.Function, args ...any) (*v8.Value, error) {
	values := make([]v8.Valuer, len(args))
	for i, a := range args {
		if fn, ok := a.(*v8.Function); ok {
			values[i] = fn
			continue
		}
		v, err := v8.NewValue(e.iso, a)
		if err != nil {
			return nil, err
		}
		defer v.Release()
		values[i] = v
	}
	return f.Call(v8.Undefined(e.iso), values...)
}
