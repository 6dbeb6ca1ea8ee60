package supervise

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

var (
	// ErrDown: the actor takes no more messages. It may be stopping, or gone.
	ErrDown = errors.New("supervise: the actor is down")
	// ErrFull: as many messages wait as the inbox allows. Try again later, or shed.
	ErrFull = errors.New("supervise: the actor's inbox is full")
	// ErrExists: a sibling (or another tree on this engine) has that name.
	ErrExists = errors.New("supervise: the name is taken")
	// ErrUnknown: there is no such child.
	ErrUnknown = errors.New("supervise: no such child")
	// ErrShutdown is the reason of an actor that its tree stopped.
	ErrShutdown = errors.New("supervise: stopped by the tree")
	// ErrGoexit is the reason of an actor that called runtime.Goexit (t.FailNow does).
	ErrGoexit = errors.New("supervise: the actor called runtime.Goexit")
	// ErrAbandoned is the reason of an actor that did not stop in time.
	ErrAbandoned = errors.New("supervise: the actor did not stop and was abandoned")
	// ErrSlow is the reason of an actor that did not start in time and then ended.
	ErrSlow = errors.New("supervise: the actor did not start in time")
	// ErrIntercept: faults can be injected in test binaries only.
	ErrIntercept = errors.New("supervise: this is not a test binary, so it injects no faults")

	errReserved = errors.New("supervise: lifecycle messages come from the tree only")
)

// PanicError is the reason of an actor that panicked.
type PanicError struct {
	Value any // what was passed to panic
	pcs   []uintptr
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the value when it was an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Stack is where it panicked, innermost call first: a function and a file:line per frame.
func (p *PanicError) Stack() string {
	if len(p.pcs) == 0 {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(p.pcs)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}

// caught keeps the program counters and leaves naming them to whoever prints
// them: a formatted stack costs more than the restart itself.
func caught(v any) *PanicError {
	pcs := make([]uintptr, 32)
	return &PanicError{Value: v, pcs: pcs[:runtime.Callers(4, pcs)]}
}

// GaveUpError ends a tree that restarted too often.
type GaveUpError struct {
	Path   string        // the tree
	Child  string        // whose failure was one too many
	Max    int           // restarts that were allowed
	Within time.Duration // the window; 0 is forever
	Reason error         // of that last failure; nil when a Permanent child ended normally
}

func (g *GaveUpError) Error() string {
	window := ""
	if g.Within > 0 {
		window = fmt.Sprintf(" within %v", g.Within)
	}
	return fmt.Sprintf("%s gave up: %s failed after %d restarts%s: %v", g.Path, g.Child, g.Max, window, reasonOf(g.Reason))
}

func (g *GaveUpError) Unwrap() error { return g.Reason }

// StartError says which child did not start, and why. Its tree has stopped
// those that had.
type StartError struct {
	Path   string // the child
	Reason error
}

func (s *StartError) Error() string { return fmt.Sprintf("%s did not start: %v", s.Path, s.Reason) }
func (s *StartError) Unwrap() error { return s.Reason }

// DownError is what Ask returns when the actor exits before it answered. The
// request may or may not have been acted upon. It matches ErrDown.
type DownError struct {
	Path   string
	Reason error // nil is a normal end
}

func (d *DownError) Error() string {
	return fmt.Sprintf("%s is down: %v", d.Path, reasonOf(d.Reason))
}

func (d *DownError) Is(target error) bool { return target == ErrDown }
func (d *DownError) Unwrap() error        { return d.Reason }

func reasonOf(err error) any {
	if err == nil {
		return "normal"
	}
	return err
}
