package lsp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"sophia/actors/typecheck/lsp"
)

// A server that asks and notifies before it answers gets its answers, and the
// client its own.
func TestClient_AnswersWhatItIsAskedMeanwhile(t *testing.T) {
	fromServer, toClient := io.Pipe()
	fromClient, toServer := io.Pipe()
	served := make(chan error, 1)
	var answers []string
	go func() {
		defer toClient.Close()
		defer fromClient.Close()
		in := bufio.NewReader(fromClient)
		served <- func() error {
			m, err := lsp.Read(in)
			if err != nil {
				return err
			}
			for _, ask := range []lsp.Message{
				{Method: "window/logMessage", Params: json.RawMessage(`{}`)},
				{ID: json.RawMessage(`"ts1"`), Method: "workspace/configuration", Params: json.RawMessage(`{"items":[{},{}]}`)},
				{ID: json.RawMessage(`7`), Method: "client/registerCapability", Params: json.RawMessage(`{}`)},
				{ID: json.RawMessage(`99`), Result: json.RawMessage(`{"of":"another"}`)},
			} {
				if err := lsp.Write(toClient, ask); err != nil {
					return err
				}
				if ask.Method != "" && len(ask.ID) > 0 {
					answer, err := lsp.Read(in)
					if err != nil {
						return err
					}
					answers = append(answers, string(answer.ID)+"="+string(answer.Result))
				}
			}
			return lsp.Write(toClient, lsp.Message{ID: m.ID, Result: json.RawMessage(`{"ok":true}`)})
		}()
	}()
	c := lsp.NewClient(fromServer, toServer)
	var got struct{ OK bool }
	if err := c.Call("initialize", map[string]int{}, &got); err != nil || !got.OK {
		t.Errorf("%+v, %v", got, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if want := `"ts1"=[null,null] 7=null`; strings.Join(answers, " ") != want {
		t.Errorf("answered %v, want %s", answers, want)
	}
	if err := c.Call("x", 1, nil); err == nil {
		t.Error("a server that is gone answered")
	}
	toServer.Close()
}

func TestRead_RefusesWhatIsNotAMessage(t *testing.T) {
	for frame, want := range map[string]error{
		"":                                      io.EOF,
		"Content-Length: 2\r\n\r\n{}":           nil,
		"content-length:2\n\n{}":                nil,
		"Content-Type: x\r\n\r\n{}":             lsp.ErrFrame,
		"Content-Length: -1\r\n\r\n{}":          lsp.ErrFrame,
		"Content-Length: 99999999999\r\n\r\n{}": lsp.ErrFrame,
		"Content-Length: 3\r\n\r\n{}":           io.ErrUnexpectedEOF,
		"Content-Length: 2\r\n":                 io.ErrUnexpectedEOF,
		"no header\r\n\r\n":                     lsp.ErrFrame,
		"Content-Length: 2\r\n\r\n[]":           lsp.ErrFrame,
	} {
		if _, err := lsp.Read(bufio.NewReader(strings.NewReader(frame))); !errors.Is(err, want) && err != want {
			t.Errorf("%q: %v, want %v", frame, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 40\r\nX: y\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[null]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := lsp.Read(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := lsp.Write(&again, m); err != nil {
			t.Fatal(err)
		}
		if _, err := lsp.Read(bufio.NewReader(&again)); err != nil {
			t.Fatalf("%s can't be read again: %v", b, err)
		}
	})
}
