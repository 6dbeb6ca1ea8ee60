package tools

import (
	"context"
	"encoding/json"

	"sophia/actors/isolates"
	"sophia/mcp/registry"
	"sophia/messages"
)

// Runner runs scripts in isolates: *isolates.Service.
type Runner interface {
	// Run has a result of one shape on every ending of the script; an error
	// means that the script was not begun.
	Run(ctx context.Context, r messages.RunRequest, caller isolates.Caller) (messages.RunResult, error)
}

type executeIn struct {
	Code      string          `json:"code" jsonschema:"TypeScript; await and return work at the top level" min:"1" max:"200000"`
	TimeoutMS int             `json:"timeout_ms,omitempty" default:"10000" min:"100" max:"30000"`
	Input     json.RawMessage `json:"input,omitempty" jsonschema:"any JSON; the script sees it as input"`
}

// Execute is execute_code.
func Execute(runner Runner) []registry.Tool {
	return []registry.Tool{registry.Define(registry.Spec{
		Name: "execute_code", Group: registry.System, Scope: registry.Unscoped, Core: true, Code: true, DirectOnly: true,
		Summary: "Run TypeScript that composes sophia.* calls",
		Description: "Use this by default when you need 3+ Sophia reads or a read-modify-write sequence: compose the calls with Promise.all, keep what is between them inside, and return only what you need. " +
			"Every tool is a method in camelCase: await sophia.queryKnowledge({...}). Lists are {items, total, cursor?}. At most 50 calls, 10 s by default, 8 MB of heap; no fetch, files or imports. " +
			"Writes inside are gated as outside.",
		Effects: registry.Effects{Composes: true},
	}, func(ctx context.Context, c *registry.Call, in executeIn) (messages.RunResult, error) {
		r := messages.RunRequest{Code: in.Code, TimeoutMS: in.TimeoutMS, Input: in.Input, Methods: c.Within.Methods(), Connection: c.Authority.Connection}
		return runner.Run(ctx, r, caller{c})
	})}
}

// caller makes a script's calls the way every call goes.
type caller struct{ c *registry.Call }

func (s caller) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	return s.c.Dispatch(ctx, tool, args)
}
