package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sophia/actors/typecheck"
	"sophia/messages"
	"sophia/testkit/bench"
	"sophia/testkit/surface"
)

// specExample is the specification's own: a session's bootstrap in one call.
const specExample = `const [briefing, catalog, docs] = await Promise.all([
  sophia.orient({ goal: 'draft mcp-surface page' }),
  sophia.capabilityCatalog({ brief: true }),
  sophia.searchDocuments({ query: 'mcp', limit: 3, compact: true }),
]);
return { total_tools: catalog.total_tools, sections: Object.keys(briefing).length, hits: docs.items.length, total: docs.total };`

// exampleMS is what the example may take at the median, in ms (the
// specification's own capture took 11,037).
const exampleMS = 25

// example measures the specification's example from an HTTP client to its answer,
// type check included, over this checkout as a workspace and over several.
func example(ctx context.Context, report *bench.Report, program string, growth int) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	checkout := os.Getenv("SOPHIA_CHECKOUT")
	if checkout == "" {
		if checkout, err = os.Getwd(); err != nil {
			return err
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	checker := typecheck.Find(filepath.Dir(program), filepath.Join(cache, "sophia-test", "npm"))
	if checker == "" {
		report.Note("example: no type checker here")
	}
	median := map[int]float64{}
	for _, factor := range []int{1, growth} {
		if median[factor], err = exampleAt(ctx, report, surface.Options{Isolate: program, Compile: compiler(program), Checker: checker}, checkout, factor); err != nil {
			return err
		}
	}
	report.Figure("example_p50_ms", median[1], bench.AtMost, exampleMS)
	report.Figure(fmt.Sprintf("example_p50_ms_at_%dx", growth), median[growth], bench.AtMost, exampleMS)
	return nil
}

func exampleAt(ctx context.Context, report *bench.Report, o surface.Options, checkout string, factor int) (p50 float64, err error) {
	if o.Dir, err = os.MkdirTemp("", "sophia-bench-example"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(o.Dir)
	s, err := surface.Open(o)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	who := messages.Authority{Connection: "conn-000001", Name: "bench", Profile: messages.Assistant, Surface: messages.SurfaceFull, Scope: []string{"*"}}
	if err := s.Mint(ctx, who); err != nil {
		return 0, err
	}
	if err := s.Import(ctx, "ws-000001", checkout, ""); err != nil {
		return 0, err
	}
	if err := s.Grow(ctx, factor, ""); err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: s.Endpoint}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client, err := dialAgent(ctx, "http://"+l.Addr().String(), who.Connection)
	if err != nil {
		return 0, err
	}
	var took []float64
	var ran struct {
		Status    string `json:"status"`
		TypeCheck string `json:"type_check"`
		Value     struct {
			Tools    int `json:"total_tools"`
			Sections int `json:"sections"`
			Total    int `json:"total"`
		} `json:"value"`
		MS    float64 `json:"execution_time_ms"`
		Calls []struct {
			Tool string
			MS   float64 `json:"ms"`
		} `json:"calls"`
	}
	tick := time.NewTicker(150 * time.Millisecond) // an agent does not call back to back
	defer tick.Stop()
	for range 60 {
		<-tick.C
		begun := time.Now()
		if err := client.execute(ctx, specExample, &ran); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begun))/float64(time.Millisecond))
		if ran.Status != "ok" || ran.Value.Sections < 25 || ran.Value.Tools < 20 || ran.Value.Total == 0 {
			return 0, fmt.Errorf("the example returned %+v", ran)
		}
	}
	report.Note("example over %d workspace(s), %d passages match: first %.1f ms, p50 %.1f, p90 %.1f; inside %.1f ms, calls %v; type check %s", factor, ran.Value.Total,
		took[0], bench.Median(took), bench.Quantile(took, 0.9), ran.MS, ran.Calls, ran.TypeCheck)
	return bench.Median(took), nil
}

// agent is an MCP client with a session.
type agent struct{ url, bearer, session string }

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

func (c *agent) post(ctx context.Context, body []byte) (http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.bearer)
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("the answer is %s %s", res.Status, b)
	}
	return res.Header, b, err
}

func dialAgent(ctx context.Context, url, bearer string) (*agent, error) {
	c := &agent{url: url, bearer: bearer}
	header, _, err := c.post(ctx, []byte(initialize))
	c.session = header.Get("Mcp-Session-Id")
	return c, err
}

// execute makes an execute_code call and decodes its structured result.
func (c *agent) execute(ctx context.Context, code string, v any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "sophia.execute_code", "arguments": map[string]any{"code": code}}})
	if err != nil {
		return err
	}
	_, b, err := c.post(ctx, body)
	if err != nil {
		return err
	}
	var answer struct {
		Result struct {
			StructuredContent json.RawMessage `json:"structuredContent"`
			IsError           bool            `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Result.IsError || len(answer.Result.StructuredContent) == 0 {
		return fmt.Errorf("the answer is %s", b)
	}
	return json.Unmarshal(answer.Result.StructuredContent, v)
}
