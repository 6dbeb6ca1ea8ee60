package transport

import (
	"encoding/json"
	"testing"
)

// What parse lets through is one request, notification or response, and its id
// is a string or a whole number that goes back as it came.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sophia.orient","arguments":{},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":"a","result":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`[{"jsonrpc":"2.0"}]`, `{"jsonrpc":"2.0","id":1e3,"method":"x"}`, `{"id":1,"id":"b","jsonrpc":"2.0","method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":null}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":[]}}`, "\xff", `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parse(b)
		if err != nil {
			if _, ours := err.(*rpcError); !ours {
				t.Fatalf("%v is not an answer", err)
			}
			return
		}
		switch e.kind {
		case request:
			if e.id == nil || e.method == "" {
				t.Fatalf("a request without id or method: %s", b)
			}
		case notification:
			if e.id != nil || e.method == "" {
				t.Fatalf("not a notification: %s", b)
			}
		case response:
			if e.id == nil || e.method != "" {
				t.Fatalf("not a response: %s", b)
			}
		}
		for what, raw := range map[string]json.RawMessage{"id": e.id, "progress token": e.progress} {
			if raw == nil {
				continue
			}
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatalf("the %s %q is not JSON", what, raw)
			}
			switch n := v.(type) {
			case string:
			case float64:
				if n != float64(int64(n)) && n < 1e18 && n > -1e18 {
					t.Fatalf("the %s %q is a fraction", what, raw)
				}
			default:
				t.Fatalf("the %s is %T", what, v)
			}
		}
		if !json.Valid(rpcFailure(e.id, -1, "x", nil)) {
			t.Fatalf("the answer to %s is not JSON", b)
		}
	})
}
