package isolates

import (
	"fmt"
	"slices"
	"strings"

	"sophia/messages"
)

// stopped is why a run was ended from outside.
func (m *machine) stopped() *messages.RunError {
	if m.stopping == stopCancelled {
		return &messages.RunError{Kind: messages.KindCrash, Name: "Cancelled", Message: "The run was cancelled", Hint: "The calls listed did happen."}
	}
	doing := "computing"
	var waiting []string
	for _, c := range m.calls {
		if !c.returned {
			waiting = append(waiting, c.Tool)
		}
	}
	if len(waiting) > 0 {
		doing = "waiting for " + strings.Join(waiting[:min(3, len(waiting))], ", ")
	} else if n := len(m.calls); n > 0 {
		doing = fmt.Sprintf("computing, after %d calls", n)
	}
	hint := "Make independent calls at once with Promise.all, and ask for less per call."
	if m.limit < MaxTimeout {
		hint += fmt.Sprintf(" timeout_ms may be up to %d.", MaxTimeout.Milliseconds())
	}
	return &messages.RunError{
		Kind: messages.KindTimeout, Name: "Timeout",
		Message: fmt.Sprintf("The run took longer than %d ms; it was %s", m.limit.Milliseconds(), doing),
		Limit:   fmt.Sprintf("%d ms", m.limit.Milliseconds()), Hint: hint,
	}
}

// signs of an end for want of memory, on the stderr of V8, of the Go runtime, of
// the C++ library, and of the worker's own heap hook. An exit code says nothing.
var memorySigns = []string{"isolate: heap limit", "out of memory", "javascript OOM", "cannot allocate memory", "std::bad_alloc", "Check failed: committed", "pthread_create failed", "failed to create new OS thread"}

// short says that a process ended for want of memory.
func (x Exit) short() bool {
	return slices.ContainsFunc(memorySigns, func(sign string) bool { return strings.Contains(x.Stderr, sign) })
}

// overflowed says that a process ended for want of stack.
func (x Exit) overflowed() bool {
	return strings.Contains(x.Stderr, "stack exceeds") || strings.Contains(x.Stderr, "stack overflow")
}

func nested() *messages.RunError {
	return &messages.RunError{Kind: messages.KindSyntax, Name: "SyntaxError", Message: "The code is nested too deeply", Hint: "Build deep or long data in a loop."}
}

// post explains a worker that ended on its own in the middle of a run.
func post(x Exit) *messages.RunError {
	switch {
	case x.short():
		return &messages.RunError{
			Kind: messages.KindMemory, Name: "OutOfMemory", Message: "The run used up its memory", Limit: "8 MB heap",
			Hint: "Ask for fewer rows or fields per call (limit, compact, fields), and keep only what you need of each result.",
		}
	case x.overflowed():
		return nested()
	case x.CPU >= MaxTimeout:
		return &messages.RunError{
			Kind: messages.KindTimeout, Name: "Timeout", Message: "The run used up its processor time", Limit: fmt.Sprintf("%v of processor time", MaxTimeout),
			Hint: "Don't compute while a call waits for the owner.",
		}
	}
	how := fmt.Sprintf("exit code %d", x.Code)
	if x.Signal != "" {
		how = "signal: " + x.Signal
	}
	return &messages.RunError{
		Kind: messages.KindCrash, Name: "WorkerDied", Message: fmt.Sprintf("The worker process ended in the middle of the run (%s)", how),
		Hint: "The calls listed did happen. Look at them before you run the code again.",
	}
}

var kinds = map[string]bool{
	messages.KindSyntax: true, messages.KindType: true, messages.KindRuntime: true, messages.KindTool: true,
	messages.KindMemory: true, messages.KindBudget: true, messages.KindApproval: true,
}

// bounded makes a worker's own account of a failure safe to pass on.
func bounded(e messages.RunError) *messages.RunError {
	if !kinds[e.Kind] {
		e.Kind = messages.KindRuntime
	}
	for _, s := range []*string{&e.Name, &e.Message, &e.Frame, &e.Hint, &e.Limit} {
		if len(*s) > 16<<10 {
			*s = strings.ToValidUTF8((*s)[:16<<10], "") + "…"
		}
	}
	e.Stack = e.Stack[:min(len(e.Stack), 16)]
	for i := range e.Stack {
		if len(e.Stack[i]) > 512 {
			e.Stack[i] = strings.ToValidUTF8(e.Stack[i][:512], "") + "…"
		}
	}
	return &e
}
