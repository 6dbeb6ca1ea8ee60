package wrapper

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"sophia/messages/problem"
)

// Header names of the protocol's HTTP transport.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
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
	done   func() bool     // of a call: it is no longer under way; false: it was not any more
}

func (m message) request() bool { return m.method != "" && m.id != nil }

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
	for k, v := range map[string]string{headerVersion: m.era, headerMethod: m.method, headerName: m.subject()} {
		if v = headerValue(v); v != "" && len(v) <= headerBound {
			h.Set(k, v)
		}
	}
	return h
}

// subject is what a request is about: the tool, prompt or resource.
func (m message) subject() string {
	var p struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	_ = json.Unmarshal(m.params, &p)
	switch m.method {
	case "tools/call", "prompts/get":
		return p.Name
	case "resources/read":
		return p.URI
	}
	return ""
}

// headerValue makes a value fit for a header: as it is when it is printable
// ASCII without blanks at its ends, else base64 in the markers of SEP-2243.
func headerValue(v string) string {
	const before, after = "=?base64?", "?="
	plain := strings.TrimSpace(v) == v && !(strings.HasPrefix(v, before) && strings.HasSuffix(v, after))
	for _, c := range []byte(v) {
		plain = plain && c >= ' ' && c <= '~'
	}
	if plain {
		return v
	}
	return before + base64.StdEncoding.EncodeToString([]byte(v)) + after
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
