package typecheck

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/actors/typecheck/judge"
)

// What a check came to.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // it could not be decided, or not in time
	Absent  = "absent"  // there is no compiler here
	Off     = "off"     // the caller did not want it
)

// limit is how long a check may take; after it the snippet runs unchecked. The
// compiler that is still at it is ended.
const limit = 2 * time.Second

// Config is what a Service needs.
type Config struct {
	Program string // the compiler, tsgo; "" is none: see Find
	Dir     string // a folder of its own, made when needed
	Log     *slog.Logger
}

// Service checks snippets once its Spec runs.
type Service struct {
	cfg   Config
	actor atomic.Pointer[supervise.Ref] // of the current life
}

// New returns a service.
func New(cfg Config) *Service {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg}
}

// ID is the actor's name in its tree.
const ID = "typecheck"

// Spec is the actor as a child of a tree.
func (s *Service) Spec() supervise.Spec {
	return supervise.Spec{
		ID: ID, Restart: supervise.Permanent, Inbox: 256, Stop: supervise.Stop{Grace: time.Second, Kill: 2 * time.Second},
		New: func() actor.Receiver { return &checker{svc: s, cfg: &s.cfg} },
	}
}

// SDK is what snippets are checked against.
type SDK struct {
	Version      string // changes when the rest does
	Declarations string // TypeScript, as mcp/tsdecl writes it
	Known        judge.Known
}

var declaration = regexp.MustCompile(`(?m)^  (?:interface|type) (\w+)`)

// NewSDK makes one of declarations and the names of their methods.
func NewSDK(version, declarations string, methods []string) *SDK {
	sdk := &SDK{Version: version, Declarations: declarations, Known: judge.Known{Methods: methods}}
	for _, m := range declaration.FindAllStringSubmatch(declarations, -1) {
		sdk.Known.Types = append(sdk.Known.Types, m[1])
	}
	return sdk
}

// Verdict is what a check came to, with what was found when it Failed.
type Verdict struct {
	State    string
	Findings []judge.Finding
}

// ask is one snippet to check.
type ask struct {
	code string
	sdk  *SDK
}

// Check checks a snippet. It never fails for any other reason than the snippet.
func (s *Service) Check(ctx context.Context, code string, sdk *SDK) Verdict {
	if s.cfg.Program == "" {
		return Verdict{State: Absent}
	}
	ref := s.actor.Load()
	if ref == nil {
		return Verdict{State: Skipped}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := ref.Ask(ctx, ask{code, sdk})
	if verdict, ok := v.(Verdict); ok && err == nil {
		return verdict
	}
	return Verdict{State: Skipped}
}

// Status says whether checks are made, and by what or why not.
type Status struct {
	On     bool
	Detail string
}

type askStatus struct{}

// ErrAbsent is why there are no checks where there is no compiler.
var ErrAbsent = errors.New("tsgo is not installed")

// Status is the state of the compiler.
func (s *Service) Status(ctx context.Context) Status {
	if s.cfg.Program == "" {
		return Status{Detail: ErrAbsent.Error()}
	}
	if ref := s.actor.Load(); ref != nil {
		if v, err := ref.Ask(ctx, askStatus{}); err == nil {
			return v.(Status)
		}
	}
	return Status{Detail: "its actor is restarting"}
}
