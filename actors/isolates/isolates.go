package isolates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates/script"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// Config is what a Service needs.
type Config struct {
	Spawn   Spawn        // Command of sophia-isolate
	Compile Spawn        // Apart of sophia-compile
	Warm    int          // workers kept ready, 2 when 0
	Max     int          // workers at most, ready and running, 8 when 0
	Strict  bool         // refuse workers that lack a lockdown layer
	Log     *slog.Logger // slog.Default when nil
}

// Service runs snippets. Its Spec belongs into the daemon's tree.
type Service struct {
	cfg      Config
	broker   atomic.Pointer[supervise.Ref] // of the current life
	compiler atomic.Pointer[supervise.Ref] // of the current life
	sequence atomic.Uint64
}

// New returns a service that runs once its Spec does.
func New(cfg Config) *Service {
	if cfg.Warm <= 0 {
		cfg.Warm = 2
	}
	if cfg.Max <= 0 {
		cfg.Max = 8
	}
	cfg.Max = max(cfg.Max, 1)
	cfg.Warm = min(cfg.Warm, cfg.Max)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Service{cfg: cfg}
}

// Spec is the subtree "isolates".
func (s *Service) Spec() supervise.Spec {
	policy := supervise.Policy{Strategy: supervise.OneForOne, Max: 5, Within: time.Minute, Backoff: supervise.Backoff{Base: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}}
	return supervise.Spec{
		ID: "isolates", Restart: supervise.Permanent,
		Tree: &supervise.TreeSpec{Policy: policy, Kids: []supervise.Spec{
			{ID: "workers", Restart: supervise.Permanent, Tree: &supervise.TreeSpec{Policy: policy}},
			{ID: "compiler", Restart: supervise.Permanent, Inbox: 256, Stop: supervise.Stop{Grace: time.Second, Kill: 2 * time.Second}, New: func() actor.Receiver { return &compiler{svc: s, cfg: &s.cfg} }},
			{ID: "broker", Restart: supervise.Permanent, New: func() actor.Receiver { return &broker{svc: s, cfg: &s.cfg} }},
		}},
	}
}

// Run runs a snippet and returns its outcome, in one shape whatever happened to
// it: a failed run is a RunResult with an Error. An error means that the snippet
// was not begun: isolate_queue_full, isolate_unavailable, isolate_layer_missing,
// or the context's. When ctx ends in the middle, the run ends and its calls are
// cancelled; the result says which happened.
func (s *Service) Run(ctx context.Context, req messages.RunRequest, caller Caller) (messages.RunResult, error) {
	return s.RunChecked(ctx, req, caller, func(context.Context) *messages.RunError { return nil })
}

// RunChecked is Run with a check of the code, which goes on while the code is
// compiled. What it finds is why nothing runs.
func (s *Service) RunChecked(ctx context.Context, req messages.RunRequest, caller Caller, check func(context.Context) *messages.RunError) (messages.RunResult, error) {
	if bad := tooLarge(req); bad != nil {
		return failedRun(bad), nil
	}
	program, bad, err := s.prepare(ctx, req.Code, check)
	switch {
	case err != nil:
		return messages.RunResult{}, err
	case bad != nil:
		return failedRun(bad), nil
	}
	// As many workers as there may be can die at once.
	attempts := s.cfg.Max + 2
	for range attempts {
		worker, err := s.acquire(ctx, req.Connection)
		if err != nil {
			return messages.RunResult{}, err
		}
		// The run watches ctx itself: its result is wanted even when ctx ends.
		taken := new(atomic.Bool)
		v, err := worker.Ask(context.WithoutCancel(ctx), job{ctx: ctx, req: req, program: program, caller: caller, taken: taken})
		switch result, ok := v.(*messages.RunResult); {
		case err == nil && ok:
			return *result, nil
		case err != errNotBegun && !taken.CompareAndSwap(false, true):
			// The actor ended while the snippet may have been running: it must not
			// run again.
			return failedRun(&messages.RunError{
				Kind: messages.KindCrash, Name: "Stopped", Message: "Sophia stopped watching the run before it ended", Hint: "The journal shows which writes happened.",
			}), nil
		}
	}
	return messages.RunResult{}, problem.New("isolate_unavailable", "%d isolate workers in a row ended before they began", attempts).WithHint("Try again; `sophia doctor` says more.")
}

// prepare compiles and checks at once. What the check finds comes first.
func (s *Service) prepare(ctx context.Context, code string, check func(context.Context) *messages.RunError) (program *script.Program, bad *messages.RunError, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		program, bad, err = s.compile(ctx, code)
	}()
	if found := check(ctx); found != nil {
		cancel()
		<-done
		return nil, found, nil
	}
	<-done
	return program, bad, err
}

func failedRun(bad *messages.RunError) messages.RunResult {
	return messages.RunResult{Status: messages.RunFailed, Logs: []string{}, Calls: []messages.RunCall{}, Error: bad, Memory: messages.RunMemory{HeapLimit: heapLimit}}
}

func (s *Service) acquire(ctx context.Context, connection string) (*supervise.Ref, error) {
	v, err := ask(ctx, &s.broker, acquire{connection})
	if err != nil {
		return nil, err
	}
	return v.(*supervise.Ref), nil
}

// Status returns the state of the pool and what its workers reported last.
func (s *Service) Status(ctx context.Context) (Status, error) {
	v, err := ask(ctx, &s.broker, askStatus{})
	if err != nil {
		return Status{}, err
	}
	status := v.(Status)
	v, err = ask(ctx, &s.compiler, askStatus{})
	if err != nil {
		return Status{}, err
	}
	status.Compiler = v.(compilerStatus).last
	return status, nil
}

func ask(ctx context.Context, to *atomic.Pointer[supervise.Ref], msg any) (any, error) {
	ref := to.Load()
	if ref == nil {
		return nil, unavailable(supervise.ErrDown)
	}
	v, err := ref.Ask(ctx, msg)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, supervise.ErrDown), errors.Is(err, supervise.ErrFull):
		return nil, unavailable(err)
	}
	return nil, err
}

func unavailable(cause error) error {
	return problem.Wrap(cause, "isolate_unavailable", "The isolates are restarting or stopping").WithHint("Try again in a moment.")
}

func tooLarge(req messages.RunRequest) *messages.RunError {
	switch {
	case len(req.Code) > MaxCode:
		return &messages.RunError{Kind: messages.KindSyntax, Name: "CodeTooLarge", Message: fmt.Sprintf("The code is %d bytes", len(req.Code)), Limit: fmt.Sprintf("%d bytes", MaxCode), Hint: "Pass data as `input`, not as part of the code."}
	case len(req.Input) > MaxInput:
		return &messages.RunError{Kind: messages.KindMemory, Name: "InputTooLarge", Message: fmt.Sprintf("The input is %d bytes", len(req.Input)), Limit: fmt.Sprintf("%d bytes", MaxInput), Hint: "Read the data through sophia.* inside the run."}
	case len(req.Input) > 0 && !json.Valid(req.Input):
		return &messages.RunError{Kind: messages.KindType, Name: "InvalidInput", Message: "The input is not JSON"}
	}
	return nil
}
