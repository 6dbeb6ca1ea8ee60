package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sophia/mcp/dispatch"
	"sophia/messages"
)

// post is the client session that mcp-go sees for one POST. What it sends goes
// to this POST's reply and nowhere else. In the session-based era it shares the
// session's id, so that a cancellation in another POST of the same session
// finds it; a stateless one has an id of its own, so none does.
type post struct {
	*session
	t      *Transport
	a      messages.Authority
	e      envelope
	reply  *reply
	modern bool

	mu      sync.Mutex
	ch      chan mcp.JSONRPCNotification
	stop    chan struct{}
	pumped  chan struct{}
	flushed bool
	filter  mcp.SubscriptionFilter
	filters bool
}

// NotificationChannel is made when something is sent the first time: most
// calls send nothing.
func (p *post) NotificationChannel() chan<- mcp.JSONRPCNotification {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch == nil {
		if p.flushed {
			return nil // a handler's goroutine that outlived its call has nobody to tell
		}
		p.ch = make(chan mcp.JSONRPCNotification, 1024) // mcp-go drops what finds no room
		p.stop, p.pumped = make(chan struct{}), make(chan struct{})
		go p.pump(p.ch, p.stop, p.pumped)
	}
	return p.ch
}

func (p *post) pump(ch <-chan mcp.JSONRPCNotification, stop <-chan struct{}, pumped chan<- struct{}) {
	defer close(pumped)
	for {
		select {
		case n := <-ch:
			_ = p.reply.event(n) // the client is gone; its context says so too
			continue
		default:
		}
		select {
		case n := <-ch:
			_ = p.reply.event(n)
		case <-stop:
			if len(ch) == 0 {
				return
			}
		}
	}
}

// flush returns when all that was sent so far is written.
func (p *post) flush() {
	p.mu.Lock()
	stop, pumped := p.stop, p.pumped
	p.flushed = true
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		<-pumped
	}
}

// GetSessionTools is how a connection's own tools reach mcp-go: the whole
// callable list for tools/list, and for tools/call whatever name was given,
// because dispatch knows better than "not found" what to say of a wrong one.
func (p *post) GetSessionTools() map[string]server.ServerTool {
	switch p.e.method {
	case string(mcp.MethodToolsList):
		return p.t.catalog.list(p.a)
	case string(mcp.MethodToolsCall):
		if p.e.name == "" || p.t.mcp.GetTool(p.e.name) != nil {
			return nil
		}
		return map[string]server.ServerTool{p.e.name: {Tool: mcp.Tool{Name: p.e.name}, Handler: p.call}}
	}
	return nil
}

// SetSessionTools is refused: what a connection may call comes from its authority.
func (p *post) SetSessionTools(map[string]server.ServerTool) {}

func (p *post) call(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return p.dispatch(ctx), nil
}

func (p *post) dispatch(ctx context.Context) *mcp.CallToolResult {
	r := dispatch.Request{Authority: p.a, Tool: p.e.name, Args: p.e.args}
	if p.e.progress != nil {
		r.Report = p.progress()
	}
	res := p.t.c.Dispatcher.Call(ctx, r)
	return toolResult(res.Body, res.Err != nil)
}

func toolResult(body json.RawMessage, isError bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.TextContent{Type: "text", Text: string(body)}},
		StructuredContent: body,
		IsError:           isError,
	}
}

// progress writes notifications/progress straight to the reply. The value
// rises with each one (MCP, Progress), whatever the handler says.
func (p *post) progress() func(done, total float64, message string) {
	var mu sync.Mutex
	last := -1.0
	return func(done, total float64, message string) {
		mu.Lock()
		defer mu.Unlock()
		if done <= last {
			done = last + 1
		}
		last = done
		params := map[string]any{"progressToken": p.e.progress, "progress": done}
		if total > 0 {
			params["total"] = max(total, done)
		}
		if message != "" {
			params["message"] = message
		}
		_ = p.reply.event(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": "notifications/progress", "params": params})
	}
}

// ask sends a request to the client on this POST's stream and waits for its
// answer, which comes in another POST of the session.
func (p *post) ask(ctx context.Context, method string, params, into any) error {
	if p.modern || !p.reply.streaming {
		return errors.New("the client takes no requests here")
	}
	id := fmt.Sprintf("sophia-%d", p.t.asked.Add(1))
	answered := p.session.expect(id)
	defer p.session.forget(id)
	if err := p.reply.event(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method, "params": params}); err != nil {
		return err
	}
	select {
	case e := <-answered:
		if e.failure != nil {
			return fmt.Errorf("the client refused %s: %s", method, e.failure)
		}
		return json.Unmarshal(e.result, into)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *post) RequestElicitation(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	var out mcp.ElicitationResult
	return &out, p.ask(ctx, string(mcp.MethodElicitationCreate), r.Params, &out)
}

func (p *post) RequestSampling(ctx context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	var out mcp.CreateMessageResult
	return &out, p.ask(ctx, string(mcp.MethodSamplingCreateMessage), r.CreateMessageParams, &out)
}

func (p *post) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	var out mcp.ListRootsResult
	return &out, p.ask(ctx, string(mcp.MethodListRoots), struct{}{}, &out)
}

// What the client said of itself, kept by the session.

func (p *post) GetClientInfo() mcp.Implementation {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.client == nil {
		return mcp.Implementation{}
	}
	return *p.session.client
}

func (p *post) SetClientInfo(i mcp.Implementation) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.session.client = &i
}

func (p *post) GetClientCapabilities() mcp.ClientCapabilities {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.caps == nil {
		return mcp.ClientCapabilities{}
	}
	return *p.session.caps
}

func (p *post) SetClientCapabilities(c mcp.ClientCapabilities) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.session.caps = &c
}

func (p *post) ProtocolVersion() string {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.session.version
}

func (p *post) SetProtocolVersion(v string) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.session.version = v
}

func (p *post) GetLogLevel() mcp.LoggingLevel {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.level == "" {
		return mcp.LoggingLevelInfo
	}
	return p.session.level
}

func (p *post) SetLogLevel(l mcp.LoggingLevel) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.session.level = l
}

func (p *post) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filter, p.filters = f, true
}

func (p *post) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.filter, p.filters
}
