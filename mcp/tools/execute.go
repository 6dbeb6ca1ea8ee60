package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"sophia/actors/isolates"
	"sophia/actors/typecheck"
	"sophia/mcp/registry"
	"sophia/mcp/tsdecl"
	"sophia/messages"
)

// Runner runs scripts in isolates: *isolates.Service.
type Runner interface {
	// RunChecked has a result of one shape on every ending of the script; an error
	// means that the script was not begun, and what check returns, that it must not
	// be.
	RunChecked(ctx context.Context, r messages.RunRequest, caller isolates.Caller, check func(context.Context) *messages.RunError) (messages.RunResult, error)
}

// Checker checks the types of a script before it runs: *typecheck.Service.
type Checker interface {
	Check(ctx context.Context, code string, sdk *typecheck.SDK) typecheck.Verdict
}

type executeIn struct {
	Code      string          `json:"code" jsonschema:"TypeScript; await and return work at the top level" min:"1" max:"200000"`
	TimeoutMS int             `json:"timeout_ms,omitempty" default:"10000" min:"100" max:"30000"`
	Input     json.RawMessage `json:"input,omitempty" jsonschema:"any JSON; the script sees it as input"`
	Check     string          `json:"check,omitempty" enum:"on,off" default:"on" jsonschema:"off runs it without a type check"`
}

// Execute is execute_code. checker may be nil.
func Execute(runner Runner, checker Checker) []registry.Tool {
	e := &executor{runner: runner, checker: checker}
	return []registry.Tool{registry.Define(registry.Spec{
		Name: "execute_code", Group: registry.System, Scope: registry.Unscoped, Core: true, Code: true, DirectOnly: true,
		Summary: "Run TypeScript that composes sophia.* calls",
		Description: "Use this by default when you need 3+ Sophia reads or a read-modify-write sequence: compose the calls with Promise.all, keep what is between them inside, and return only what you need. " +
			"Every tool is a method in camelCase: await sophia.queryKnowledge({...}). Lists are {items, total, cursor?}. At most 50 calls, 10 s by default, 8 MB of heap; no fetch, files or imports. " +
			"Writes inside are gated as outside.",
		Effects: registry.Effects{Composes: true},
	}, e.execute)}
}

type executor struct {
	runner  Runner
	checker Checker
	sdks    sync.Map // version of a set → *typecheck.SDK
}

func (e *executor) execute(ctx context.Context, c *registry.Call, in executeIn) (messages.RunResult, error) {
	verdict := typecheck.Verdict{State: typecheck.Skipped} // unless it comes to a check
	check := func(ctx context.Context) *messages.RunError {
		if verdict = e.check(ctx, c.Within, in); verdict.State != typecheck.Failed {
			return nil
		}
		return explain(in.Code, verdict)
	}
	run := messages.RunRequest{Code: in.Code, TimeoutMS: in.TimeoutMS, Input: in.Input, Methods: c.Within.Methods(), Connection: c.Authority.Connection}
	r, err := e.runner.RunChecked(ctx, run, caller{c}, check)
	r.TypeCheck = verdict.State
	return r, err
}

func (e *executor) check(ctx context.Context, within *registry.Set, in executeIn) typecheck.Verdict {
	switch {
	case in.Check == "off":
		return typecheck.Verdict{State: typecheck.Off}
	case e.checker == nil:
		return typecheck.Verdict{State: typecheck.Absent}
	}
	return e.checker.Check(ctx, in.Code, e.sdk(within))
}

// sdk is what get_sdk_types shows of the same set.
func (e *executor) sdk(within *registry.Set) *typecheck.SDK {
	if sdk, ok := e.sdks.Load(within.Version()); ok {
		return sdk.(*typecheck.SDK)
	}
	var methods []tsdecl.Method
	var names []string
	for _, t := range within.Tools() {
		methods = append(methods, Declared(t))
		names = append(names, t.Method)
	}
	sdk, _ := e.sdks.LoadOrStore(within.Version(), typecheck.NewSDK(within.Version(), tsdecl.Declarations(methods), names))
	return sdk.(*typecheck.SDK)
}

const (
	maxMore  = 9   // type errors that are told besides the first
	maxFrame = 160 // characters of a line that are shown
)

func explain(code string, v typecheck.Verdict) *messages.RunError {
	first := v.Findings[0]
	out := &messages.RunError{Kind: messages.KindType, Name: "TypeError", Message: first.Message, Line: first.Line, Column: first.Column, Hint: first.Hint}
	if lines := strings.Split(code, "\n"); first.Line <= len(lines) {
		out.Frame = lines[first.Line-1]
		if runes := []rune(out.Frame); len(runes) > maxFrame {
			out.Frame = string(runes[:maxFrame]) + "…"
		}
	}
	if out.Hint != "" {
		out.Hint += " "
	}
	out.Hint += "Nothing was run; check: 'off' runs it as it is."
	for _, f := range v.Findings[1:min(len(v.Findings), 1+maxMore)] {
		out.More = append(out.More, strings.TrimSpace(fmt.Sprintf("%d:%d %s. %s", f.Line, f.Column, f.Message, f.Hint)))
	}
	return out
}

// caller makes a script's calls the way every call goes.
type caller struct{ c *registry.Call }

func (s caller) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	return s.c.Dispatch(ctx, tool, args)
}
