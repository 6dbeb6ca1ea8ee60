package isolates

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"sophia/actors/isolates/runclock"
	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
	"sophia/messages/problem"
)

// Caller makes the Sophia calls of a run. Call is used from several goroutines
// at once; it must return soon after its context ends. The context carries the
// run's clock (runclock.Pause). An error is shown to the snippet as problem.Of
// shows it.
type Caller interface {
	Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error)
}

// settleTime is how long a finished run waits for calls that it cancelled to say
// how they ended.
const settleTime = 500 * time.Millisecond

// job is one snippet for one worker.
type job struct {
	ctx     context.Context // the caller's
	req     messages.RunRequest
	program *script.Program
	caller  Caller
	// taken is set once: by the worker that is about to run it, or by a caller
	// that gives up on that worker. Whoever comes second leaves it alone.
	taken *atomic.Bool
}

// session runs a job on a process: it does what the machine says.
type session struct {
	job
	m        *machine
	proc     Proc
	out      outbox
	returned chan outcome
	clock    chan bool // true: pause
	done     chan struct{}
	cancels  map[uint32]context.CancelFunc
	running  int
}

type outcome struct {
	id     uint32
	result json.RawMessage
	err    error
}

// run returns the result, or false when the process ended before the snippet had
// begun. The process may still be there. life ends with the worker's actor.
func (j job) run(life context.Context, proc Proc, frames <-chan wire.Frame) (messages.RunResult, bool) {
	s := &session{
		job: j, m: newMachine(time.Now(), j.req, j.program), proc: proc,
		out: outbox{proc: proc}, returned: make(chan outcome, MaxCalls), clock: make(chan bool), done: make(chan struct{}),
		cancels: map[uint32]context.CancelFunc{},
	}
	defer close(s.done)
	s.out.send(j.opening()...) // one write: the worker wakes up once

	if !s.loop(life, frames) {
		return messages.RunResult{}, false
	}
	if s.running > 0 { // settling takes time, and there is nothing left for the process to do
		proc.Kill()
	}
	s.settle()
	return s.m.result(), true
}

// opening is all that a worker gets to begin with.
func (j job) opening() []wire.Frame {
	methods, err := json.Marshal(j.req.Methods)
	if err != nil || j.req.Methods == nil {
		methods = []byte("[]")
	}
	frames := []wire.Frame{{Kind: wire.Methods, Payload: methods}}
	if len(j.req.Input) > 0 {
		frames = append(frames, wire.Frame{Kind: wire.Input, Payload: j.req.Input})
	}
	return append(frames, wire.Frame{Kind: wire.Run, OK: j.program.Sole, Payload: []byte(j.program.JS)})
}

func (s *session) loop(life context.Context, frames <-chan wire.Frame) (began bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	cancelled := s.ctx.Done()
	for !s.m.over {
		if at, ok := s.m.next(time.Now()); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case f, open := <-frames:
			if open {
				s.do(s.m.frame(time.Now(), f))
				continue
			}
			s.proc.Kill() // closing its output is as good as ending
			do, began := s.m.exited(time.Now(), s.proc.Wait())
			s.do(do)
			if !began {
				return false
			}
		case r := <-s.returned:
			s.running--
			s.do(s.m.returned(time.Now(), r.id, r.result, r.err))
		case pause := <-s.clock:
			if pause {
				s.m.pause(time.Now())
			} else {
				s.m.resume(time.Now())
			}
		case <-timer.C:
			s.do(s.m.tick(time.Now()))
		case <-cancelled:
			cancelled = nil
			s.do(s.m.stop(time.Now(), stopCancelled))
		case <-life.Done():
			s.proc.Kill()
			if !s.m.began {
				return false
			}
			s.do(s.m.end(time.Now(), &messages.RunError{Kind: messages.KindCrash, Name: "Stopped", Message: "The daemon stopped in the middle of the run", Hint: "The calls listed did happen."}))
		}
	}
	return true
}

func (s *session) do(actions []action) {
	for _, a := range actions {
		switch a := a.(type) {
		case startCall:
			ctx, cancel := context.WithCancel(s.ctx)
			s.cancels[a.id] = cancel
			s.running++
			go s.call(runclock.With(ctx, s.pause), a)
		case cancelCall:
			s.cancels[a.id]()
		case send:
			if !s.out.send(a.Frame) {
				s.proc.Kill()
			}
		case kill:
			s.proc.Kill()
		}
	}
}

func (s *session) call(ctx context.Context, a startCall) {
	r := outcome{id: a.id}
	defer func() {
		if v := recover(); v != nil {
			r.result, r.err = nil, problem.Wrap(fmt.Errorf("panic: %v", v), "internal", "%s failed inside Sophia", a.tool).WithHint("The daemon's log has the details.")
		}
		if r.err != nil && ctx.Err() != nil && problem.CodeOf(r.err) == "" {
			r.err = problem.Wrap(r.err, "cancelled", "%s was cancelled", a.tool)
		}
		s.returned <- r // has room for all
	}()
	r.result, r.err = s.caller.Call(ctx, a.tool, a.args)
}

// pause stops the run's clock; see package runclock.
func (s *session) pause() (resume func()) {
	s.tell(true)
	return func() { s.tell(false) }
}

func (s *session) tell(pause bool) {
	select {
	case s.clock <- pause:
	case <-s.done:
	}
}

// settle waits for the calls that were under way, so that the result can say
// what happened to each.
func (s *session) settle() {
	for _, cancel := range s.cancels {
		cancel()
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for s.running > 0 {
		select {
		case r := <-s.returned:
			s.running--
			s.m.returned(time.Now(), r.id, r.result, r.err)
		case <-s.clock:
		case <-timer.C:
			return
		}
	}
}

// read hands frames on until the stream ends or is not one.
func read(proc Proc, quit <-chan struct{}) <-chan wire.Frame {
	frames := make(chan wire.Frame)
	go func() {
		defer close(frames)
		in := newReader(proc)
		for {
			f, err := wire.Read(in)
			if err != nil {
				return
			}
			select {
			case frames <- f:
			case <-quit:
				return
			}
		}
	}()
	return frames
}
