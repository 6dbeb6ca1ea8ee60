package wrapper

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"sophia/messages/problem"
)

// message is what the proxy needs to know of a JSON-RPC message. The bytes are
// passed on as they are.
type message struct {
	raw    []byte // one line
	id     json.RawMessage
	method string
	era    string // the version in _meta of a stateless request, or ""
	params json.RawMessage
	cancel json.RawMessage // requestId of notifications/cancelled
}

func (m message) request() bool      { return m.method != "" && m.id != nil }
func (m message) notification() bool { return m.method != "" && m.id == nil }

func parseMessage(line []byte) (message, error) {
	var v struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(line, &v); err != nil || v.JSONRPC != "2.0" {
		return message{}, problem.New("message_malformed", "a line on standard input is not one JSON-RPC 2.0 message")
	}
	m := message{raw: line, id: v.ID, method: v.Method, params: v.Params}
	if string(m.id) == "null" {
		m.id = nil
	}
	var p struct {
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(v.Params, &p) == nil { // params need not be an object of this shape
		m.era = p.Meta.Version
		if m.method == "notifications/cancelled" {
			m.cancel = p.RequestID
		}
	}
	return m, nil
}

// headers are what the stateless era wants beside the body (mcp 2026-07-28,
// transports). A value over the bound is left out, and the daemon says so.
func (m message) headers() http.Header {
	h := http.Header{}
	if m.era == "" {
		return h
	}
	h.Set(mcp.HeaderProtocolVersion, m.era)
	for k, v := range mcp.StandardHeaders(m.era, mcp.MCPMethod(m.method), m.params) {
		if len(v) <= headerBound {
			h.Set(k, v)
		}
	}
	return h
}

// repeatable are the methods that only read: they may be sent again when it is
// unknown whether the daemon has seen them.
func (m message) repeatable() bool {
	switch m.method {
	case "initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list",
		"resources/read", "prompts/list", "prompts/get", "completion/complete", "subscriptions/listen":
		return true
	}
	return false
}

// JSON-RPC codes of errors that the proxy itself answers with.
const (
	rpcParse       = -32700
	rpcInvalid     = -32600
	rpcUnavailable = -32000 // implementation-defined; data has the code
)

// failure is the answer to a request that got none.
func failure(id json.RawMessage, rpc int, err error) []byte {
	p := problem.Of(err)
	if id == nil {
		id = json.RawMessage("null")
	}
	text := p.Message
	if p.Hint != "" {
		text += ". " + p.Hint
	}
	b, _ := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    *problem.Error `json:"data"`
	}{rpc, text, p}})
	return b
}

// oneLine makes a message a line of its own.
func oneLine(b []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// answers says whether b is a response to the request id.
func answers(b []byte, id json.RawMessage) bool {
	var v struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	return json.Unmarshal(b, &v) == nil && v.Method == nil && bytes.Equal(v.ID, id)
}
