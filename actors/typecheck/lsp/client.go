package lsp

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
)

// Client makes requests one after the other: what else the server says meanwhile
// is answered with nothing. It is for one goroutine; it ends when the pipe does.
type Client struct {
	in   *bufio.Reader
	out  io.Writer
	last int
}

// NewClient is a client over a server's output and input.
func NewClient(in io.Reader, out io.Writer) *Client {
	return &Client{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return Write(c.out, Message{Method: method, Params: raw})
}

// Call sends a request, waits for its response and decodes the result into v,
// which may be nil. The server's refusal is an *Error.
func (c *Client) Call(method string, params, v any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c.last++
	id := json.RawMessage(strconv.Itoa(c.last))
	if err := Write(c.out, Message{ID: id, Method: method, Params: raw}); err != nil {
		return err
	}
	for {
		m, err := Read(c.in)
		if err != nil {
			return err
		}
		switch {
		case m.Method != "" && len(m.ID) > 0: // it asks for something: registration, configuration
			if err := Write(c.out, Message{ID: m.ID, Result: nothing(m)}); err != nil {
				return err
			}
		case m.Method != "" || string(m.ID) != string(id):
		case m.Error != nil:
			return m.Error
		case v == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, v)
		}
	}
}

// nothing is the answer that changes nothing: a null for each setting that is
// asked for.
func nothing(m Message) json.RawMessage {
	if m.Method != "workspace/configuration" {
		return json.RawMessage("null")
	}
	var asked struct {
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(m.Params, &asked) != nil {
		return json.RawMessage("[]")
	}
	out, err := json.Marshal(make([]*int, len(asked.Items)))
	if err != nil {
		return json.RawMessage("[]")
	}
	return out
}
