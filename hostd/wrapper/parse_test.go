package wrapper

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/messages/problem"
)

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n"))
	f.Add([]byte("\xef\xbb\xbfid: 3\r\ndata: a\r\ndata:b\r\n\r\n: comment\n\ndata: cut off"))
	f.Add([]byte("data\n\ndata:\n\nretry: 10\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		if err := events(bytes.NewReader(b), func(data []byte, id string) error {
			n++
			if strings.Contains(id, "\x00") || bytes.Contains(data, []byte("\n\n\n\n\n")) && !bytes.Contains(b, []byte("data")) {
				t.Errorf("event %q %q of %q", data, id, b)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if n > bytes.Count(b, []byte("\n"))/2+1 {
			t.Errorf("%d events in %q", n, b)
		}
	})
}

func TestEvents(t *testing.T) {
	var got []string
	err := events(strings.NewReader(": hi\nid: 7\ndata: a\ndata:  b\n\nevent: x\n\ndata\n\ndata: cut"), func(data []byte, id string) error {
		got = append(got, id+"="+string(data))
		return nil
	})
	if err != nil || strings.Join(got, "|") != "7=a\n b|7=" {
		t.Errorf("%q %v", got, err)
	}
}

func TestReadLine_OneTooLongIsSkipped(t *testing.T) {
	br := bufio.NewReaderSize(strings.NewReader("short\n"+strings.Repeat("x", 5000)+"\nnext\r\nlast"), 16)
	want := []string{"short", "", "next", "last"}
	for i, w := range want {
		l, err := readLine(br, 100)
		if string(l) != w || (i == 1) != errors.Is(err, errTooLarge) {
			t.Errorf("line %d: %q %v", i, l, err)
		}
	}
	if _, err := readLine(br, 100); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(initialized))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":[1]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			if problem.CodeOf(err) != "message_malformed" {
				t.Fatal(err)
			}
			return
		}
		for k, vs := range m.headers() {
			for _, v := range vs {
				if len(v) > headerBound || strings.ContainsAny(v, "\r\n\x00") {
					t.Errorf("%s: %q", k, v)
				}
			}
		}
		if m.id != nil {
			if out := failure(m.id, rpcParse, problem.New("x", "y")); !json.Valid(out) || !answers(out, m.id) {
				t.Errorf("the answer to %s is %s", m.id, out)
			}
		}
	})
}

func TestPlaceholder_NeverSplitBehindTheLargestHeaders(t *testing.T) {
	// What net/http writes before Authorization is bounded: the request line, Host,
	// User-Agent, and our own headers of at most headerBound each come to less
	// than its 4 KiB buffer.
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, m map[string]any) { answer(w, m, `{}`) })
	c := connect(t, e, Options{})
	for _, n := range []int{1, 700, headerBound - 1, headerBound, headerBound + 1, 100_000} {
		v := strings.Repeat("v", n)
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + v + `","_meta":{"io.modelcontextprotocol/protocolVersion":"` + v + `"}}}`)
		expect(t, c.hear(), `"result"`) // the endpoint has checked the Authorization
	}
}

func TestBearerFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", "sophia_abc\n", 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	s, err := readBearer(good)
	if err != nil || !s.Equal([]byte("sophia_abc")) {
		t.Fatalf("%v", err)
	}
	s.Zero()
	for path, code := range map[string]string{
		write("open", "sophia_abc\n", 0o644):            "bearer_file_not_private",
		write("empty", "", 0o600):                       "bearer_file_malformed",
		write("blank", "\n", 0o600):                     "bearer_file_malformed",
		write("two", "a b\n", 0o600):                    "bearer_file_malformed",
		write("header", "a\r\nX-Evil: 1\n", 0o600):      "bearer_file_malformed",
		write("long", strings.Repeat("x", 5000), 0o600): "bearer_file_malformed",
		link:                         "bearer_file_unreadable",
		filepath.Join(dir, "absent"): "bearer_file_unreadable",
		dir:                          "bearer_file_not_private",
	} {
		if _, err := readBearer(path); problem.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
}
