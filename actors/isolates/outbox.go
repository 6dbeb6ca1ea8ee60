package isolates

import (
	"sync"

	"sophia/actors/isolates/wire"
)

// maxBacklog is how many sends may wait for a worker to read them: more than a
// run's calls and what is refused of them come to.
const maxBacklog = 4 * MaxCalls

// tryWriter is a Proc that can be written to without waiting: n bytes were
// taken, and what was not may be written later.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// outbox sends frames to a worker in order, and never waits: a worker that does
// not read must not hold up its own end. What the pipe takes is written at once;
// a goroutine writes the rest, while there is any.
type outbox struct {
	proc    Proc
	mu      sync.Mutex
	backlog []byte
	sends   int // in the backlog
	writing bool
}

// send reports false when the worker reads so little that it is not the program
// that was started.
func (o *outbox) send(frames ...wire.Frame) bool {
	var b []byte
	for _, f := range frames {
		b, _ = wire.Append(b, f) // what came in one frame fits into one
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		o.backlog = append(o.backlog, b...)
		o.sends++
		return o.sends <= maxBacklog
	}
	if w, ok := o.proc.(tryWriter); ok {
		n, err := w.TryWrite(b)
		if err != nil {
			return true // the reader sees the end
		}
		if b = b[n:]; len(b) == 0 {
			return true
		}
	}
	o.backlog, o.writing = b, true
	go o.flush()
	return true
}

func (o *outbox) flush() {
	for {
		o.mu.Lock()
		b := o.backlog
		o.backlog, o.sends = nil, 0
		o.writing = len(b) > 0
		o.mu.Unlock()
		if len(b) == 0 {
			return
		}
		if _, err := o.proc.Write(b); err != nil {
			return // the reader sees the end; what comes now waits in vain
		}
	}
}
