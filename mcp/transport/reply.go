package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// reply is the answer to one POST: plain JSON when the result comes alone, a
// stream of events as soon as something precedes it. Writes are in the order of
// the calls, and none happens after the end.
type reply struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	wait      time.Duration // for the client to take a write
	streaming bool          // whether the client takes a stream
	gone      func()        // called once when a write fails: nobody reads any more

	mu      sync.Mutex
	started bool // the stream's head is written
	over    bool
	failed  error
	beat    *time.Timer
}

var errOver = errors.New("transport: the reply is over")

func newReply(w http.ResponseWriter, wait time.Duration, streaming bool) *reply {
	return &reply{w: w, control: http.NewResponseController(w), wait: wait, streaming: streaming}
}

// keepAlive turns the reply into a stream after every and writes a comment each
// every, so that nobody between takes a long call for a dead one.
func (r *reply) keepAlive(every time.Duration) {
	if !r.streaming {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.beat = time.AfterFunc(every, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.over || r.failed != nil {
			return
		}
		r.raw([]byte(": waiting\n\n"))
		r.beat.Reset(every)
	})
}

// event writes a message that precedes the result.
func (r *reply) event(message any) error {
	b, err := encode(message)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errOver
	}
	if !r.streaming {
		return nil // a client that takes no stream gets the result alone
	}
	r.frame(b)
	return r.failed
}

// socketBuffer is what the kernel takes without the client reading: less than
// that can't block, and a deadline per call costs.
const socketBuffer = 16 << 10

// finish writes the result and ends the reply. Status counts for plain JSON only.
func (r *reply) finish(status int, message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	if r.beat != nil {
		r.beat.Stop()
	}
	if r.started {
		r.frame(message)
		return
	}
	if len(message) > socketBuffer {
		_ = r.control.SetWriteDeadline(time.Now().Add(r.wait))
	}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(status)
	_, r.failed = r.w.Write(message)
}

// end closes a stream that has no result.
func (r *reply) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.beat != nil {
		r.beat.Stop()
	}
}

// open writes the head of a stream at once.
func (r *reply) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw([]byte(": open\n\n"))
}

// comment writes a sign of life to a stream.
func (r *reply) comment() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw([]byte(": alive\n\n"))
	return r.failed
}

func (r *reply) frame(message []byte) {
	var b bytes.Buffer
	b.Grow(len(message) + 32)
	b.WriteString("event: message\ndata: ")
	b.Write(message) // compact JSON has no line breaks
	b.WriteString("\n\n")
	r.raw(b.Bytes())
}

func (r *reply) raw(b []byte) {
	if r.failed != nil {
		return
	}
	if !r.started {
		r.started = true
		h := r.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
		r.w.WriteHeader(http.StatusOK)
	}
	_ = r.control.SetWriteDeadline(time.Now().Add(r.wait)) // a recorder has none
	if _, r.failed = r.w.Write(b); r.failed == nil {
		r.failed = r.control.Flush()
	}
	if r.failed != nil && r.gone != nil {
		r.gone()
	}
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := encode(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":"internal","message":"Something inside Sophia failed"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// refuse answers with a coded error outside JSON-RPC.
func refuse(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]string{"code": code, "message": message})
}

func rpcFailure(id json.RawMessage, code int, message string, data any) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	b, err := encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Data    any    `json:"data,omitempty"`
		} `json:"error"`
	}{mcp.JSONRPC_VERSION, id, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{code, message, data}})
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Something inside Sophia failed"}}`)
	}
	return b
}

func writeRPCError(w http.ResponseWriter, status int, id json.RawMessage, code int, message string, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(rpcFailure(id, code, message, data))
}
