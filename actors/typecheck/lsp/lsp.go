// Package lsp speaks as much of the language server protocol as a type check
// needs: JSON-RPC 2.0 in frames with a Content-Length header over a pipe pair.
//
// Specification: microsoft.github.io/language-server-protocol, 3.17.
//
// Imports: the standard library only.
package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// MaxFrame is the largest message that is read, in bytes.
const MaxFrame = 4 << 20

// ErrFrame is returned for what is not a message.
var ErrFrame = errors.New("lsp: not a message")

// Message is a request, a notification or a response.
type Message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is a response's.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error is the server's own text.
func (e *Error) Error() string { return fmt.Sprintf("lsp: %s (%d)", e.Message, e.Code) }

// Write writes one message with one Write.
func Write(w io.Writer, m Message) error {
	m.JSONRPC = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	frame := append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
	_, err = w.Write(frame)
	return err
}

// Read reads one message. It returns io.EOF when the stream ends between two.
func Read(r *bufio.Reader) (Message, error) {
	length := -1
	for header := 0; ; header++ {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF && header == 0 && len(line) == 0:
			return Message{}, io.EOF
		case errors.Is(err, bufio.ErrBufferFull), header > 16:
			return Message{}, ErrFrame
		case err != nil:
			return Message{}, io.ErrUnexpectedEOF
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return Message{}, ErrFrame
		}
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 || length > MaxFrame {
				return Message{}, ErrFrame
			}
		}
	}
	if length < 0 {
		return Message{}, ErrFrame
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return Message{}, io.ErrUnexpectedEOF
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return Message{}, fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return m, nil
}
