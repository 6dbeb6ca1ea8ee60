package transport

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
)

// envelope is what the transport itself needs to know of a JSON-RPC message.
type envelope struct {
	kind     kind
	id       json.RawMessage // as sent, so that it goes back as sent; nil for a notification
	method   string
	name     string          // params.name
	args     json.RawMessage // params.arguments
	version  string          // of the protocol, from _meta
	progress json.RawMessage // progress token
	capable  bool            // _meta has client capabilities, which a stateless request must
	cancels  json.RawMessage // params.requestId of a cancellation
	result   json.RawMessage // of a response
	failure  json.RawMessage // error of a response
}

type kind int

const (
	request kind = iota
	notification
	response
)

// rpcError is a refusal before the message reaches the server.
type rpcError struct {
	code    int
	message string
}

func (e *rpcError) Error() string { return e.message }

// parse reads one message. Batches went away with 2025-06-18. What it refuses
// is what HandleMessage would take the wrong way: a null id as a notification,
// a fractional id as another one, a second message after the first.
func parse(body []byte) (envelope, error) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return envelope{}, &rpcError{mcp.INVALID_REQUEST, "batches are not supported: send one message per POST"}
	}
	var raw wire
	err := json.Unmarshal(trimmed, &raw)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		raw = wire{}
		err = json.Unmarshal(trimmed, &raw.wireHead) // params of another type than an object
		raw.Params.odd = true
	}
	if err != nil {
		return envelope{}, &rpcError{mcp.PARSE_ERROR, "the body is not one JSON-RPC message"}
	}
	e := envelope{id: raw.ID, result: raw.Result, failure: raw.Error}
	if raw.JSONRPC != mcp.JSONRPC_VERSION {
		return e, &rpcError{mcp.INVALID_REQUEST, `the message has no "jsonrpc": "2.0"`}
	}
	if e.id != nil && !validID(e.id) {
		e.id = nil
		return e, &rpcError{mcp.INVALID_REQUEST, "an id is a string or an integer"}
	}
	switch {
	case raw.Method == nil && e.id != nil && (raw.Result != nil || raw.Error != nil):
		e.kind = response
		return e, nil
	case raw.Method == nil || *raw.Method == "":
		return e, &rpcError{mcp.INVALID_REQUEST, "the message has no method"}
	}
	e.method = *raw.Method
	if e.id == nil {
		e.kind = notification
	}
	if raw.Params.odd {
		return e, &rpcError{mcp.INVALID_PARAMS, "params is not readable"}
	}
	e.take(raw.Params)
	return e, nil
}

// wire is a message as it comes; one pass over the body reads all that is needed.
type wire struct {
	wireHead
	Params wireParams `json:"params"`
}

type wireHead struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

type wireParams struct {
	Name      json.RawMessage `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	RequestID json.RawMessage `json:"requestId"`
	Meta      json.RawMessage `json:"_meta"`

	odd bool
}

func (e *envelope) take(p wireParams) {
	_ = json.Unmarshal(p.Name, &e.name) // another type than string is the method's own affair
	if e.kind == notification && validID(p.RequestID) {
		e.cancels = p.RequestID
	}
	if !bytes.Equal(p.Arguments, []byte("null")) {
		e.args = p.Arguments
	}
	if len(p.Meta) == 0 || p.Meta[0] != '{' {
		return
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(p.Meta, &m); err != nil {
		return
	}
	_ = json.Unmarshal(m[mcp.MetaKeyProtocolVersion], &e.version)
	var caps *mcp.ClientCapabilities
	e.capable = json.Unmarshal(m[mcp.MetaKeyClientCapabilities], &caps) == nil && caps != nil
	if token := m["progressToken"]; validID(token) {
		e.progress = token
	}
}

// params are the parameters as they came, which few need.
func params(body []byte) json.RawMessage {
	var m struct {
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // parse has read it
	return m.Params
}

// validID: a string, or a whole number (MCP, Base Protocol, Requests).
func validID(id json.RawMessage) bool {
	if len(id) == 0 || len(id) > 1024 {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return true
	case c == '-' || c >= '0' && c <= '9':
		return !bytes.ContainsAny(id, ".eE")
	}
	return false
}
