package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
)

// Gate asks the owner and waits for the one answer. It fills in the request's
// ID, code and times. actors/approvals is one.
type Gate interface {
	Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error)
}

// Inbox counts the posts that wait for a connection. It is asked once per
// response and must be quick.
type Inbox interface {
	Unread(ctx context.Context, a messages.Authority) (int, error)
}

// Codes of the errors that dispatch itself returns, beside those of
// mcp/registry and mcp/schema.
const (
	CodeTooLarge     = "result_too_large"
	CodeCancelled    = "cancelled"
	CodeNoGate       = "approval_unavailable"
	CodeMismatch     = "approval_mismatch"
	codeRefusedStart = "approval_" // + the outcome: denied, timed_out, withdrawn
)

// Config is what a Dispatcher needs.
type Config struct {
	Registry  *registry.Registry
	Gate      Gate
	Inbox     Inbox
	Live      Live             // who calls is asked of it again where time may have passed
	MaxResult int              // bytes of a result, 1 MiB when 0
	Log       *slog.Logger     // slog.Default when nil
	Observe   func(Record)     // called after each call, may be nil
	Heartbeat time.Duration    // how often a call that waits for the owner says so, 10 s when 0
	ID        func() string    // call ids, random when nil
	Now       func() time.Time // time.Now when nil
}

// Live says whether a connection that was in order when its call began still
// is: nil, or invalid_or_revoked_bearer. A direct call's bearer has just been
// looked up; a script's calls and a call that waited for the owner come later.
// A nil Live asks nobody.
type Live func(ctx context.Context, a messages.Authority) error

// Record is one finished call, for the log and the audit.
type Record struct {
	ID         string
	Connection string
	Tool       string // canonical, or as given when there is no such tool
	Inside     bool
	Approval   string
	Code       string // "" when it went well
	Took       time.Duration
}

// Request is one call.
type Request struct {
	Authority messages.Authority
	Tool      string // any spelling
	Args      json.RawMessage
	Inside    bool // from a script
	Report    func(done, total float64, message string)
}

// Response is a call's outcome. Body is always a JSON object with
// _inbox_unread; with Err set it is {code, message, hint?, valid?} and that.
type Response struct {
	Tool *registry.Tool // nil when there is none that the caller may call
	Body json.RawMessage
	Err  *problem.Error
}

// Dispatcher runs calls. It is safe for concurrent use.
type Dispatcher struct{ c Config }

// New checks the configuration.
func New(c Config) (*Dispatcher, error) {
	if c.Registry == nil || c.Inbox == nil {
		return nil, errors.New("dispatch: needs a registry and an inbox")
	}
	if c.MaxResult == 0 {
		c.MaxResult = 1 << 20
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 10 * time.Second
	}
	if c.ID == nil {
		c.ID = func() string { return fmt.Sprintf("call-%010x", rand.Uint64()>>24) }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Dispatcher{c}, nil
}

// Callable is what an authority may call, directly or from inside a script.
func (d *Dispatcher) Callable(a messages.Authority, inside bool) *registry.Set {
	return d.c.Registry.Callable(a, inside)
}

// Registry is the registry of all tools.
func (d *Dispatcher) Registry() *registry.Registry { return d.c.Registry }

// Call runs one call to its end. It never panics and always has a body.
func (d *Dispatcher) Call(ctx context.Context, r Request) Response {
	begun := d.c.Now()
	set := d.Callable(r.Authority, r.Inside)
	call := &registry.Call{ID: d.c.ID(), Authority: r.Authority, Inside: r.Inside, Callable: set, Report: r.Report,
		Direct: d.Callable(r.Authority, false), Within: d.Callable(r.Authority, true)}
	call.Dispatch = func(ctx context.Context, tool string, args []byte) ([]byte, error) {
		inner := d.Call(ctx, Request{Authority: r.Authority, Tool: tool, Args: args, Inside: true, Report: r.Report})
		if inner.Err != nil {
			return nil, inner.Err
		}
		return inner.Body, nil
	}
	tool, body, err := d.run(ctx, set, call, r)
	if err == nil {
		err = d.tooLarge(tool, body)
	}
	res := Response{Tool: tool, Body: body}
	name := r.Tool
	if tool != nil {
		name = tool.Canonical
	}
	if err != nil {
		res.Err = d.explain(ctx, call, name, err)
		if res.Body, err = json.Marshal(res.Err); err != nil {
			res.Body = json.RawMessage(`{"code":"internal","message":"Something inside Sophia failed"}`)
		}
	}
	res.Body = d.splice(ctx, r.Authority, res.Body)
	if d.c.Observe != nil {
		rec := Record{ID: call.ID, Connection: r.Authority.Connection, Tool: name, Inside: r.Inside, Approval: call.Approval, Took: d.c.Now().Sub(begun)}
		if res.Err != nil {
			rec.Code = res.Err.Code
		}
		d.c.Observe(rec)
	}
	return res
}

// Refuse is the body of a call that was refused before it was dispatched.
func (d *Dispatcher) Refuse(ctx context.Context, a messages.Authority, why *problem.Error) json.RawMessage {
	b, err := json.Marshal(why)
	if err != nil {
		b = json.RawMessage(`{"code":"internal","message":"Something inside Sophia failed"}`)
	}
	return d.splice(ctx, a, b)
}

func (d *Dispatcher) run(ctx context.Context, set *registry.Set, call *registry.Call, r Request) (tool *registry.Tool, body json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.c.Log.Error("a tool panicked", "tool", r.Tool, "call", call.ID, "panic", p, "stack", string(debug.Stack()))
			body, err = nil, problem.New("internal", "Something inside Sophia failed").WithHint("The daemon's log has the details, under %s.", call.ID)
		}
	}()
	if tool, err = set.Find(r.Tool); err != nil {
		return nil, nil, err
	}
	call.Tool = tool.Canonical
	if r.Inside {
		if err := d.live(ctx, r.Authority); err != nil {
			return tool, nil, err
		}
	}
	args := r.Args
	if registry.Asks(r.Authority, tool) {
		if args, err = d.ask(ctx, tool, call, r); err != nil {
			return tool, nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return tool, nil, err
	}
	body, err = tool.Run(ctx, call, args)
	return tool, body, err
}

func (d *Dispatcher) live(ctx context.Context, a messages.Authority) error {
	if d.c.Live == nil {
		return nil
	}
	return d.c.Live(ctx, a)
}

func (d *Dispatcher) tooLarge(tool *registry.Tool, body []byte) error {
	if len(body) <= d.c.MaxResult {
		return nil
	}
	e := problem.New(CodeTooLarge, "the result has %d bytes; at most %d are sent", len(body), d.c.MaxResult)
	switch {
	case !tool.ReadOnly():
		return e.WithHint("The change was made; only its description is too long. Read what you need of it.")
	case tool.List():
		return e.WithHint("Ask for less: a smaller limit, compact: true, or fields: [...].")
	}
	return e.WithHint("Ask for a smaller part.")
}

// explain turns any error into one that may be shown.
func (d *Dispatcher) explain(ctx context.Context, call *registry.Call, name string, err error) *problem.Error {
	if _, ours := errors.AsType[*problem.Error](err); !ours && ctx.Err() != nil {
		return problem.Wrap(err, CodeCancelled, "the call was cancelled before it was done").WithHint("Call it again if you still need it.")
	}
	e := problem.Of(err)
	if e.Code == "internal" {
		d.c.Log.Error("a tool failed", "tool", name, "call", call.ID, "error", err)
	}
	return e
}

// splice adds the inbox count to a body that is a JSON object. -1 says that it
// couldn't be counted.
func (d *Dispatcher) splice(ctx context.Context, a messages.Authority, body json.RawMessage) json.RawMessage {
	n, err := d.c.Inbox.Unread(context.WithoutCancel(ctx), a)
	if err != nil {
		d.c.Log.Error("the inbox could not be counted", "connection", a.Connection, "error", err)
		n = -1
	}
	body = bytes.TrimRight(body, " \n\t\r")
	out := make([]byte, 0, len(body)+len(registry.InboxKey)+16)
	out = append(out, body[:len(body)-1]...)
	if len(bytes.TrimSpace(out)) > 1 {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, registry.InboxKey...)
	out = append(out, '"', ':')
	out = strconv.AppendInt(out, int64(n), 10)
	return append(out, '}')
}
