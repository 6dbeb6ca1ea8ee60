package isolates

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

const (
	// compileTime is how long the compiler may take. What people write takes a
	// millisecond.
	compileTime = 5 * time.Second
	// compileTries is how often a snippet is given to a compiler that then ends.
	compileTries = 2
	// maxCompiled is how many snippets one process compiles: what it may gather in
	// memory has an end.
	maxCompiled  = 1000
	maxToCompile = 64 // snippets that wait
)

// compiler owns the process that compiles: one at a time, kept warm, and one
// snippet at a time. The process is started again when it ends, later and later
// when it keeps ending before it was of use; snippets are refused meanwhile.
type compiler struct {
	svc *Service
	cfg *Config

	jobs     chan *compilation
	resting  bool // until the next start
	failures int  // in a row
	last     error
}

// Messages to the compiler.
type (
	compilerUp    struct{}
	compilerEnded struct {
		err    error
		served bool         // it compiled something
		again  *compilation // what it was at, if that is worth another try
	}
)

// compilerStatus answers askStatus: why nothing can be compiled, or nil.
type compilerStatus struct{ last error }

// compilation is one snippet, and who wants it.
type compilation struct {
	code  string
	tries int
	reply supervise.Reply
}

// compiled is the answer.
type compiled struct {
	program *script.Program
	bad     *messages.RunError
}

func (s *Service) compile(ctx context.Context, code string) (*script.Program, *messages.RunError, error) {
	v, err := ask(ctx, &s.compiler, &compilation{code: code})
	if err != nil {
		return nil, nil, err
	}
	result := v.(compiled)
	return result.program, result.bad, nil
}

func (k *compiler) Receive(c *actor.Context) {
	switch msg := c.Message().(type) {
	case actor.Started:
		k.jobs = make(chan *compilation, maxToCompile)
		k.svc.compiler.Store(supervise.Self(c))
		k.start(c, nil)
	case *compilation:
		msg.reply = supervise.ReplyTo(c)
		if k.resting {
			msg.reply.Send(problem.Of(k.last))
			return
		}
		select {
		case k.jobs <- msg:
		default:
			msg.reply.Send(problem.New("isolate_queue_full", "Too many runs are waiting for the compiler").WithHint("Wait for the runs that are under way, then try again."))
		}
	case compilerUp:
		k.last = nil
	case compilerEnded:
		k.ended(c, msg)
	case retry:
		k.resting = false
		k.start(c, nil)
	case askStatus:
		supervise.ReplyTo(c).Send(compilerStatus{k.last})
	}
}

func (k *compiler) start(c *actor.Context, first *compilation) {
	cfg, jobs, self := k.cfg, k.jobs, supervise.Self(c)
	supervise.Go(c, func(ctx context.Context) any { return serveCompiler(ctx, cfg, first, jobs, self) })
}

func (k *compiler) ended(c *actor.Context, msg compilerEnded) {
	if msg.served || msg.err == nil {
		k.failures = 0
	}
	if msg.err == nil {
		k.start(c, msg.again)
		return
	}
	k.last = msg.err
	k.cfg.Log.Warn("the compiler ended", slog.Int("failures", k.failures), slog.Any("error", msg.err))
	if k.failures++; k.failures == 1 {
		k.start(c, nil)
		return
	}
	k.resting = true
	for len(k.jobs) > 0 {
		(<-k.jobs).reply.Send(problem.Of(msg.err))
	}
	supervise.After(c, min(backoffBase<<min(k.failures-2, 16), backoffMax), retry{})
}

// serveCompiler is the life of one process.
func serveCompiler(ctx context.Context, cfg *Config, first *compilation, jobs <-chan *compilation, self *supervise.Ref) (end compilerEnded) {
	defer func() {
		if end.err != nil && first != nil { // it never got to it
			first.reply.Send(problem.Of(end.err))
		}
	}()
	proc, err := cfg.Compile(ctx)
	if err != nil {
		return compilerEnded{err: problem.Wrap(err, "isolate_unavailable", "The compiler could not be started").WithHint("`sophia doctor` says what is missing.")}
	}
	frames, release := attend(proc)
	defer release()
	if _, err := ready(ctx, cfg, proc, frames); err != nil {
		return compilerEnded{err: err}
	}
	if self.Send(compilerUp{}) != nil {
		return compilerEnded{}
	}
	for range maxCompiled {
		job := first
		first = nil
		if job == nil {
			select {
			case <-ctx.Done():
				return compilerEnded{}
			case <-frames: // it ended, or spoke out of turn
				end.err = errIdleEnd
				return end
			case job = <-jobs:
			}
		}
		if !job.reply.Wanted() {
			continue
		}
		result, alive := compileOn(proc, frames, job.code)
		if result == (compiled{}) {
			if job.tries++; job.tries < compileTries {
				return compilerEnded{again: job}
			}
			result.bad = &messages.RunError{Kind: messages.KindCrash, Name: "CompilerDied", Message: "The compiler ended while it looked at the code", Hint: "Nothing ran. Try again, with simpler code if it happens again."}
		}
		end.served = true
		job.reply.Send(result)
		if !alive {
			return compilerEnded{}
		}
	}
	return compilerEnded{}
}

// compileOn gives one snippet to the process. The result is empty when the
// process ended and the snippet is not known to be why.
func compileOn(proc Proc, frames <-chan wire.Frame, code string) (result compiled, alive bool) {
	timer := time.AfterFunc(compileTime, proc.Kill)
	_ = wire.Write(proc, wire.Frame{Kind: wire.Run, Payload: []byte(code)}) // the reader sees the end
	f, open := <-frames
	late := !timer.Stop()
	switch {
	case late:
		return compiled{bad: &messages.RunError{
			Kind: messages.KindTimeout, Name: "Timeout", Message: fmt.Sprintf("The code took longer than %v to compile", compileTime),
			Limit: fmt.Sprintf("%v to compile", compileTime), Hint: "Pass data as `input`, not as part of the code.",
		}}, false
	case !open:
		return compiled{bad: tooMuch(proc.Wait())}, false
	case f.Kind == wire.Done:
		var p script.Program
		if json.Unmarshal(f.Payload, &p) == nil {
			return compiled{program: &p}, true
		}
	case f.Kind == wire.Failed:
		var bad messages.RunError
		if json.Unmarshal(f.Payload, &bad) == nil {
			return compiled{bad: bounded(bad)}, true
		}
	}
	return compiled{}, false
}

// tooMuch explains a compiler that a snippet ended, nil where it was not that.
func tooMuch(x Exit) *messages.RunError {
	switch {
	case x.short():
		return &messages.RunError{Kind: messages.KindMemory, Name: "OutOfMemory", Message: "The compiler used up its memory on the code", Limit: fmt.Sprintf("%d MB for the compiler", wire.Memory>>20), Hint: "Pass data as `input`, not as part of the code."}
	case x.overflowed():
		return nested()
	}
	return nil
}
