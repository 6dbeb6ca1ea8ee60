package transport_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type withBearer struct {
	inner  http.RoundTripper
	bearer string
}

func (w withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.bearer)
	return w.inner.RoundTrip(r)
}

// A client that no one here wrote: the official Go SDK's, as it opens by itself.
func TestInterop_OfficialGoClient(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var progress []string
	client := gosdk.NewClient(&gosdk.Implementation{Name: "interop", Version: "1"}, &gosdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, r.Params.Message)
		}})
	session, err := client.Connect(context.Background(), &gosdk.StreamableClientTransport{Endpoint: w.http.URL + "/mcp",
		HTTPClient: &http.Client{Transport: withBearer{w.hc.Transport, "alpha"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(context.Background(), nil)
	if err != nil || len(list.Tools) != len(w.tools()) {
		t.Fatalf("%+v %v", list, err)
	}
	params := &gosdk.CallToolParams{Name: "sophia.echo", Arguments: map[string]any{"text": "hi", "steps": 3}}
	params.SetProgressToken("p")
	res, err := session.CallTool(context.Background(), params)
	if err != nil || res.IsError || res.StructuredContent.(map[string]any)["text"] != "hi" {
		t.Fatalf("%+v %v", res, err)
	}
	res, err = session.CallTool(context.Background(), &gosdk.CallToolParams{Name: "sophia.ecko", Arguments: map[string]any{}})
	if err != nil || !res.IsError || res.StructuredContent.(map[string]any)["code"] != "unknown_tool" {
		t.Errorf("%+v %v", res, err)
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(progress) != 3 {
		t.Errorf("progress: %v", progress)
	}
	if n := w.tr.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}
