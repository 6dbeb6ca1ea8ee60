package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
)

// envelope is what the transport itself needs to know of a JSON-RPC message.
type envelope struct {
	kind     kind
	id       json.RawMessage // as sent, so that it goes back as sent; nil for a notification
	method   string
	params   json.RawMessage
	name     string          // params.name
	args     json.RawMessage // params.arguments
	version  string          // of the protocol, from _meta
	progress json.RawMessage // progress token
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
	var raw struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return envelope{}, &rpcError{mcp.INVALID_REQUEST, "batches are not supported: send one message per POST"}
	}
	if err := decodeOne(trimmed, &raw); err != nil {
		return envelope{}, &rpcError{mcp.PARSE_ERROR, "the body is not one JSON-RPC message"}
	}
	e := envelope{id: raw.ID, params: raw.Params, result: raw.Result, failure: raw.Error}
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
	if len(raw.Params) == 0 || bytes.Equal(raw.Params, []byte("null")) {
		return e, nil
	}
	if raw.Params[0] != '{' {
		return e, &rpcError{mcp.INVALID_PARAMS, "params is an object"}
	}
	var p struct {
		Name      json.RawMessage `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw.Params, &p); err != nil {
		return e, &rpcError{mcp.INVALID_PARAMS, "params is not readable"}
	}
	_ = json.Unmarshal(p.Name, &e.name) // another type than string is the method's own affair
	if !bytes.Equal(p.Arguments, []byte("null")) {
		e.args = p.Arguments
	}
	if len(p.Meta) > 0 && p.Meta[0] == '{' {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(p.Meta, &m); err == nil {
			_ = json.Unmarshal(m[mcp.MetaKeyProtocolVersion], &e.version)
			if token := m["progressToken"]; validID(token) {
				e.progress = token
			}
		}
	}
	return e, nil
}

func decodeOne(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
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
