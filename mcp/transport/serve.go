package transport

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"sophia/messages"
	"sophia/messages/problem"
)

const headerSession = "Mcp-Session-Id"

// Codes of JSON-RPC errors of the transport's own, in the range that JSON-RPC
// leaves to servers.
const codeBusy = -32003

func (t *Transport) servePost(w http.ResponseWriter, r *http.Request, a messages.Authority) {
	if m, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || m != "application/json" {
		writeRPCError(w, http.StatusUnsupportedMediaType, nil, mcp.INVALID_REQUEST, "Content-Type must be application/json", nil)
		return
	}
	plain, stream := accepts(r)
	if !plain && !stream {
		writeRPCError(w, http.StatusNotAcceptable, nil, mcp.INVALID_REQUEST, "Accept must allow application/json or text/event-stream", nil)
		return
	}
	body, ok := t.read(w, r)
	if !ok {
		writeRPCError(w, http.StatusRequestEntityTooLarge, nil, mcp.INVALID_REQUEST, "the request is too large", map[string]int64{"limit_bytes": t.c.MaxBody})
		return
	}
	e, err := parse(body)
	var bad *rpcError
	if errors.As(err, &bad) {
		writeRPCError(w, http.StatusBadRequest, e.id, bad.code, bad.message, nil)
		return
	}
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	if mcp.IsModernProtocol(version) || mcp.IsModernProtocol(e.version) {
		t.serveModern(w, r, a, e, body, stream)
		return
	}
	if version != "" && !mcp.IsValidProtocolVersion(version) {
		writeRPCError(w, http.StatusBadRequest, e.id, mcp.INVALID_REQUEST, "Unsupported protocol version: "+version, map[string]any{"supported": mcp.ValidProtocolVersions})
		return
	}
	t.serveLegacy(w, r, a, e, body, stream)
}

// read reads at most MaxBody bytes. false: there were more, or none came.
func (t *Transport) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength > t.c.MaxBody {
		return nil, false
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, t.c.MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, false
	}
	return b, true // what was cut off on the way doesn't parse
}

// accepts: an absent header accepts anything (RFC 9110, 12.5.1).
func accepts(r *http.Request) (plain, stream bool) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return true, false
	}
	for part := range strings.SplitSeq(header, ",") {
		m, params, err := mime.ParseMediaType(part)
		if err != nil || params["q"] == "0" {
			continue
		}
		switch m {
		case "*/*":
			plain = true
		case "application/json", "application/*":
			plain = true
		case "text/event-stream", "text/*":
			stream = true
		}
	}
	return plain, stream
}

func (t *Transport) serveLegacy(w http.ResponseWriter, r *http.Request, a messages.Authority, e envelope, body []byte, stream bool) {
	var s *session
	if e.kind == request && e.method == string(mcp.MethodInitialize) {
		s = newSession(a.Connection, time.Now())
	} else if s = t.session(w, r, a, e.id); s == nil {
		return
	}
	switch e.kind {
	case response:
		s.answer(e)
		w.WriteHeader(http.StatusAccepted)
		return
	case notification:
		if e.method == string(mcp.MethodNotificationCancelled) {
			s.cancelRequest(e.cancels)
		}
		p := &post{session: s, t: t, a: a, e: e, reply: newReply(w, t.c.WriteWait, false)}
		t.mcp.HandleMessage(t.mcp.WithContext(r.Context(), p), body)
		p.reply.end()
		p.flush()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	t.run(w, r, &post{session: s, t: t, a: a, e: e, reply: newReply(w, t.c.WriteWait, stream)}, body)
}

// session finds the session that a request names, or refuses.
func (t *Transport) session(w http.ResponseWriter, r *http.Request, a messages.Authority, id json.RawMessage) *session {
	name := r.Header.Get(headerSession)
	if name == "" {
		writeRPCError(w, http.StatusBadRequest, id, mcp.INVALID_REQUEST, "there is no "+headerSession+" header: begin with initialize", nil)
		return nil
	}
	s := t.sessions.find(name, a.Connection)
	if s == nil {
		writeRPCError(w, http.StatusNotFound, id, mcp.INVALID_REQUEST, "there is no such session: begin again with initialize", nil)
	}
	return s
}

func (t *Transport) serveModern(w http.ResponseWriter, r *http.Request, a messages.Authority, e envelope, body []byte, stream bool) {
	if e.kind != request {
		// Nothing here belongs to an earlier request: a stateless client cancels
		// by closing the stream, and is asked nothing.
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if status, code, message, data := t.checkModern(r, e, body); status != 0 {
		writeRPCError(w, status, e.id, code, message, data)
		return
	}
	p := &post{session: newSession(a.Connection, time.Now()), t: t, a: a, e: e, modern: true, reply: newReply(w, t.c.WriteWait, stream)}
	t.run(w, r, p, body)
}

// checkModern compares headers and body, as 2026-07-28 wants (SEP-2575, SEP-2243).
func (t *Transport) checkModern(r *http.Request, e envelope, body []byte) (status, code int, message string, data any) {
	header := r.Header.Get(mcp.HeaderProtocolVersion)
	switch {
	case header == "":
		return http.StatusBadRequest, mcp.HEADER_MISMATCH, mcp.HeaderProtocolVersion + " header is required for requests carrying " + mcp.MetaKeyProtocolVersion, nil
	case e.version == "":
		return http.StatusBadRequest, mcp.INVALID_PARAMS, "missing or invalid _meta field " + mcp.MetaKeyProtocolVersion, nil
	case header != e.version:
		return http.StatusBadRequest, mcp.HEADER_MISMATCH, mcp.HeaderProtocolVersion + " header and _meta name different protocol versions", nil
	case !mcp.IsValidProtocolVersion(e.version):
		details := mcp.UnsupportedProtocolVersionError{Version: e.version, Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
		return http.StatusBadRequest, details.Code, details.Message, details.Data
	}
	if !e.capable {
		return http.StatusBadRequest, mcp.INVALID_PARAMS, "missing or invalid _meta field " + mcp.MetaKeyClientCapabilities, nil
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, e.version, mcp.MCPMethod(e.method), params(body)); err != nil {
		return http.StatusBadRequest, mcp.HEADER_MISMATCH, err.Error(), nil
	}
	if e.method == string(mcp.MethodToolsCall) {
		if tool := t.mcp.GetTool(e.name); tool != nil {
			lookup := func(name string) (string, bool) {
				v := r.Header.Values(name)
				return strings.Join(v, ","), len(v) > 0
			}
			if err := mcp.ValidateParamHeadersLookup(lookup, &tool.Tool, params(body)); err != nil {
				return http.StatusBadRequest, mcp.HEADER_MISMATCH, err.Error(), nil
			}
		}
	}
	return 0, 0, "", nil
}

// run handles one request to its end.
func (t *Transport) run(w http.ResponseWriter, r *http.Request, p *post, body []byte) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	until := t.base
	if p.e.method == string(mcp.MethodSubscriptionsListen) {
		if !t.streams.add(p.a.Connection, t.c.MaxStreams) {
			writeRPCError(w, http.StatusTooManyRequests, p.e.id, codeBusy, "too many streams are open on this connection", nil)
			return
		}
		defer t.streams.done(p.a.Connection)
		if err := t.mcp.RegisterSession(ctx, p); err == nil {
			defer t.mcp.UnregisterSession(ctx, p.SessionID())
		}
		until = t.drain
		go t.watch(ctx, r, cancel)
	} else {
		leave, err := t.c.Admission.Enter(ctx, p.a)
		if err != nil {
			t.busy(w, p, err)
			return
		}
		defer leave()
	}
	defer context.AfterFunc(until, cancel)()
	end, ok := p.session.begin(p.e.id, cancel)
	if !ok {
		writeRPCError(w, http.StatusNotFound, p.e.id, mcp.INVALID_REQUEST, "there is no such session: begin again with initialize", nil)
		return
	}
	defer func() { end(time.Now()) }()
	p.reply.gone = cancel
	defer p.reply.end()                             // also when a panic unwinds: the timer must not write to a response that is over
	if p.e.method != string(mcp.MethodInitialize) { // its answer has a header to carry
		p.reply.keepAlive(t.c.KeepAlive)
	}
	if t.ours(p) {
		t.respond(p, t.callTool(ctx, p))
		return
	}
	answer := t.mcp.HandleMessage(t.mcp.WithContext(ctx, p), body)
	p.flush()
	if result, fine := answer.(mcp.JSONRPCResponse); fine {
		if !p.modern && p.e.method == string(mcp.MethodInitialize) {
			t.sessions.add(p.session)
			w.Header().Set(headerSession, p.session.id)
		}
		t.respond(p, result.Result)
		return
	}
	failure, isError := answer.(mcp.JSONRPCError)
	if !isError {
		failure.Error = mcp.JSONRPCErrorDetails{Code: mcp.INTERNAL_ERROR, Message: "Something inside Sophia failed"}
	}
	status := http.StatusOK
	if p.modern {
		status = modernStatus(failure.Error.Code)
	}
	p.reply.finish(status, rpcFailure(p.e.id, failure.Error.Code, failure.Error.Message, failure.Error.Data))
}

// watch cancels a subscription, which outlives the call that opened it, once its
// bearer is no longer good.
func (t *Transport) watch(ctx context.Context, r *http.Request, cancel context.CancelFunc) {
	beat := time.NewTicker(t.c.KeepAlive)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if _, err := t.authority(r); err != nil {
				cancel()
				return
			}
		}
	}
}

// ours says that p is a call of one of Sophia's tools, which needs nothing of
// mcp-go: it would read the body four times more to hand it back here.
func (t *Transport) ours(p *post) bool {
	return !t.c.viaServer && p.e.method == string(mcp.MethodToolsCall) && p.e.name != "" && t.mcp.GetTool(p.e.name) == nil
}

// callTool is the result of such a call, as mcp-go would decorate it.
func (t *Transport) callTool(ctx context.Context, p *post) mcp.CallToolResult {
	result := p.dispatch(ctx)
	if p.modern {
		result.ResultType = mcp.ResultTypeComplete
		result.EnsureResultMeta().SetServerInfo(t.info)
	}
	return *result
}

// respond writes a result under the id as it came: a large number stays exact.
func (t *Transport) respond(p *post, result any) {
	b, err := encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{mcp.JSONRPC_VERSION, p.e.id, plainResult(result)})
	if err != nil {
		t.c.Log.Error("a result could not be encoded", "method", p.e.method, "error", err)
		b = rpcFailure(p.e.id, mcp.INTERNAL_ERROR, "Something inside Sophia failed", nil)
	}
	p.reply.finish(http.StatusOK, b)
}

// plainResult is a tool's result in a form that is written without the HTML
// escapes of mcp-go's own encoding, which cost a model tokens.
func plainResult(result any) any {
	r, ok := result.(mcp.CallToolResult)
	if at, pointer := result.(*mcp.CallToolResult); pointer {
		r, ok = *at, true
	}
	body, ours := r.StructuredContent.(json.RawMessage)
	if !ok || !ours {
		return result
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return struct {
		Meta       *mcp.Meta       `json:"_meta,omitempty"`
		ResultType mcp.ResultType  `json:"resultType,omitempty"`
		Content    [1]text         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError,omitempty"`
	}{r.Meta, r.ResultType, [1]text{{"text", string(body)}}, body, r.IsError}
}

// busy answers a request for which there is no room: for a tool call with a
// result, so that the model learns of it.
func (t *Transport) busy(w http.ResponseWriter, p *post, err error) {
	why := problem.Of(err)
	if p.e.method != string(mcp.MethodToolsCall) {
		writeRPCError(w, admissionStatus(why), p.e.id, codeBusy, why.Message, why)
		return
	}
	body := t.c.Dispatcher.Refuse(context.Background(), p.a, why)
	result := toolResult(body, true)
	if p.modern {
		result.ResultType = mcp.ResultTypeComplete
		result.EnsureResultMeta().SetServerInfo(t.info)
	}
	t.respond(p, *result)
}

// modernStatus is the HTTP status that 2026-07-28 gives to a JSON-RPC error.
func modernStatus(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// serveGet is a session's stream: what mcp-go broadcasts, and signs of life.
func (t *Transport) serveGet(w http.ResponseWriter, r *http.Request, a messages.Authority) {
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "2026-07-28 has no GET stream: use subscriptions/listen")
		return
	}
	if _, stream := accepts(r); !stream {
		writeRPCError(w, http.StatusNotAcceptable, nil, mcp.INVALID_REQUEST, "Accept must allow text/event-stream", nil)
		return
	}
	s := t.session(w, r, a, nil)
	if s == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.drain, cancel)()
	end, ok := s.begin(nil, cancel)
	if !ok {
		writeRPCError(w, http.StatusNotFound, nil, mcp.INVALID_REQUEST, "there is no such session: begin again with initialize", nil)
		return
	}
	defer func() { end(time.Now()) }()
	events, first := s.openStream()
	if !first {
		writeRPCError(w, http.StatusConflict, nil, mcp.INVALID_REQUEST, "the session has a stream already", nil)
		return
	}
	defer s.closeStream()
	reply := newReply(w, t.c.WriteWait, true)
	reply.open()
	beat := time.NewTicker(t.c.KeepAlive)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-events:
			if reply.event(n) != nil {
				return
			}
		case <-beat.C:
			if _, err := t.authority(r); err != nil { // revoked meanwhile
				return
			}
			if reply.comment() != nil {
				return
			}
		}
	}
}

func (t *Transport) serveDelete(w http.ResponseWriter, r *http.Request, a messages.Authority) {
	if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "2026-07-28 has no sessions to delete")
		return
	}
	if s := t.session(w, r, a, nil); s != nil {
		t.sessions.drop(s)
		w.WriteHeader(http.StatusNoContent)
	}
}

func cutPrefix(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && rest != "" && !strings.Contains(rest, "/")
}
