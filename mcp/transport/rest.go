package transport

import (
	"context"
	"net/http"

	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/mcp/schema"
	"sophia/messages"
	"sophia/messages/problem"
)

// serveREST is one tool call without MCP: the body is the arguments, the answer
// is the result's structured content.
func (t *Transport) serveREST(w http.ResponseWriter, r *http.Request, a messages.Authority, tool string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "use POST")
		return
	}
	args, ok := t.read(w, r)
	if !ok {
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is too large")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.base, cancel)()
	leave, err := t.c.Admission.Enter(ctx, a)
	if err != nil {
		why := problem.Of(err)
		t.writeREST(w, admissionStatus(why), t.c.Dispatcher.Refuse(ctx, a, why))
		return
	}
	defer leave()
	res := t.c.Dispatcher.Call(ctx, dispatch.Request{Authority: a, Tool: tool, Args: args})
	t.writeREST(w, restStatus(res.Err), res.Body)
}

// codeTooMany is what an Admission says when this connection has too much under
// way; everything else is the daemon's own trouble.
const codeTooMany = "too_many_calls"

func admissionStatus(why *problem.Error) int {
	if why.Code == codeTooMany {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

func (t *Transport) writeREST(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func restStatus(e *problem.Error) int {
	if e == nil {
		return http.StatusOK
	}
	switch e.Code {
	case registry.CodeUnknownTool, "not_found":
		return http.StatusNotFound
	case schema.CodeNotObject, schema.CodeUnknown, schema.CodeMissing, schema.CodeInvalid, registry.CodeUnknownField:
		return http.StatusBadRequest
	case "approval_denied", "approval_timed_out", "approval_withdrawn", dispatch.CodeNoGate, dispatch.CodeMismatch:
		return http.StatusForbidden
	case "approval_outdated":
		return http.StatusConflict
	case "internal":
		return http.StatusInternalServerError
	}
	return http.StatusUnprocessableEntity
}
