package isolates

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates/wire"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

const (
	readyWithin = 10 * time.Second // a worker needs about 20 ms
	// A lease whose holder went away before it sent a snippet ends by itself.
	leaseTime = 5 * time.Second
)

// Messages between a worker, its broker and a run.
type (
	workerUp struct {
		ref    *supervise.Ref
		report wire.Report
	}
	leased   struct{}
	unused   struct{}
	finished struct{ err error }
)

// errNotBegun answers a job whose snippet was not looked at: another worker may
// have it.
var errNotBegun = errors.New("isolates: the worker ended before the snippet began")

// worker owns one process for its whole life, and uses it once.
type worker struct {
	cfg    *Config
	broker *supervise.Ref
	ref    *supervise.Ref
	jobs   chan pendingJob // room for the one
	state  workerState
	lease  *supervise.Timer
}

type workerState uint8

const (
	starting workerState = iota
	idle
	lent
	running
)

type pendingJob struct {
	job
	reply supervise.Reply
}

func (w *worker) Receive(c *actor.Context) {
	switch msg := c.Message().(type) {
	case actor.Started:
		w.ref = supervise.Self(c)
		w.broker.Monitor(w.ref)
		supervise.Go(c, w.life)
	case workerUp:
		w.state = idle
		if w.broker.Send(msg) != nil {
			supervise.Exit(c, nil)
		}
	case leased:
		w.state = lent
		w.lease = supervise.After(c, leaseTime, unused{})
	case unused:
		supervise.Exit(c, nil)
	case job:
		if w.state != lent {
			supervise.ReplyTo(c).Send(errNotBegun)
			return
		}
		w.lease.Stop()
		w.state = running
		w.jobs <- pendingJob{msg, supervise.ReplyTo(c)}
	case finished:
		select {
		case p := <-w.jobs: // it came while the process was ending
			p.reply.Send(errNotBegun)
		default:
		}
		supervise.Exit(c, msg.err)
	case supervise.Down: // the broker's successor does not know this worker
		if w.state != running {
			supervise.Exit(c, nil)
		}
	}
}

// life is the process, from start to end, beside the actor.
func (w *worker) life(ctx context.Context) any {
	proc, err := w.cfg.Spawn(ctx)
	if err != nil {
		return finished{problem.Wrap(err, "isolate_unavailable", "An isolate worker could not be started").WithHint("`sophia doctor` says what is missing.")}
	}
	frames, release := attend(proc)
	defer release()
	report, err := ready(ctx, w.cfg, proc, frames)
	if err != nil {
		return finished{err}
	}
	if w.ref.Send(workerUp{w.ref, report}) != nil {
		return finished{}
	}
	select {
	case <-ctx.Done():
		return finished{}
	case <-frames: // it ended, or spoke out of turn
		return finished{errIdleEnd}
	case p := <-w.jobs:
		if !p.taken.CompareAndSwap(false, true) {
			return finished{} // its caller took this actor for dead: another worker has it
		}
		p.perform(ctx, proc, frames)
		proc.Kill() // the result is on its way: nobody waits until a process is taken down
		if x := proc.Wait(); x.Stderr != "" {
			w.cfg.Log.Debug("what an isolate worker said", slog.Int("code", x.Code), slog.String("signal", x.Signal), slog.String("stderr", x.Stderr))
		}
		return finished{}
	}
}

var errIdleEnd = problem.New("isolate_unavailable", "An isolate worker ended before it was used").WithHint("`sophia doctor` says what is missing.")

// perform answers whatever happens, a panic of its own included.
func (p pendingJob) perform(ctx context.Context, proc Proc, frames <-chan wire.Frame) {
	answered := false
	defer func() {
		if !answered {
			result := failedRun(&messages.RunError{Kind: messages.KindCrash, Name: "Internal", Message: "Sophia failed while it watched the run", Hint: "The journal shows which writes happened."})
			p.reply.Send(&result)
		}
	}()
	result, began := p.job.run(ctx, proc, frames)
	answered = true
	if !began {
		p.reply.Send(errNotBegun)
		return
	}
	p.reply.Send(&result)
}

// attend reads what a process sends. release ends it, whatever it does.
func attend(proc Proc) (frames <-chan wire.Frame, release func()) {
	quit := make(chan struct{})
	frames = read(proc, quit)
	return frames, func() {
		proc.Kill()
		close(quit)
		proc.Wait()
		for range frames { // the reader has ended when this has
		}
	}
}

// ready waits for a process to say that it is, and what of its lockdown is in
// force.
func ready(ctx context.Context, cfg *Config, proc Proc, frames <-chan wire.Frame) (wire.Report, error) {
	timer := time.NewTimer(readyWithin)
	defer timer.Stop()
	unavailable := func(cause error, what string) error {
		return problem.Wrap(cause, "isolate_unavailable", "A process of the isolates did not become ready: %s", what).WithHint("`sophia doctor` says what is missing.")
	}
	select {
	case <-ctx.Done():
		return wire.Report{}, ctx.Err()
	case <-timer.C:
		return wire.Report{}, unavailable(context.DeadlineExceeded, "it took too long")
	case f, open := <-frames:
		if !open {
			proc.Kill()
			x := proc.Wait()
			return wire.Report{}, unavailable(nil, "it ended with: "+lastLine(x.Stderr))
		}
		var report wire.Report
		if f.Kind != wire.Ready || json.Unmarshal(f.Payload, &report) != nil {
			return wire.Report{}, unavailable(nil, "it does not speak the protocol")
		}
		if missing := report.Missing(); cfg.Strict && len(missing) > 0 {
			return wire.Report{}, problem.New("isolate_layer_missing", "The isolate's lockdown lacks %s", strings.Join(missing, "; ")).
				WithHint("`sophia doctor` lists the layers; strict_isolates = false runs without them.")
		}
		return report, nil
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "nothing on its stderr"
	}
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func newReader(r io.Reader) io.Reader { return bufio.NewReaderSize(r, 8<<10) }
