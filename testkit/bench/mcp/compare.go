package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"sophia/testkit/bench"
)

// caller is one MCP client on one kept-alive HTTP connection. It is the same
// for all servers, and knows no more of MCP than what a call needs.
type caller struct {
	url, bearer, session string
	hc                   *http.Client
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

func dial(url, bearer string) (*caller, error) {
	c := &caller{url: url, bearer: bearer, hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	header, _, err := c.post(initialize)
	if err != nil {
		return nil, err
	}
	c.session = header.Get("Mcp-Session-Id")
	_, _, err = c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, err
}

func (c *caller) request(body string) (*http.Request, error) {
	r, err := http.NewRequest("POST", c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.bearer)
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	return r, nil
}

func (c *caller) post(body string) (http.Header, []byte, error) {
	r, err := c.request(body)
	if err != nil {
		return nil, nil, err
	}
	res, err := c.hc.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return res.Header, b, err
}

func call(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sophia.echo","arguments":{"text":"hello %d"}}}`, n, n)
}

func (c *caller) echo(n int) error {
	_, b, err := c.post(call(n))
	if err == nil && !bytes.Contains(b, fmt.Appendf(nil, "hello %d", n)) {
		err = fmt.Errorf("the answer is %s", b)
	}
	return err
}

// serve starts a handler on a loopback port.
func serve(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
}

func compare(report *bench.Report, rounds, calls int) error {
	own, err := newOurs(8)
	if err != nil {
		return err
	}
	defer own.Close()
	var contestants [2][]bench.Contestant
	for _, s := range []struct {
		name string
		h    http.Handler
	}{{"sophia", own}, {"mcp-go", bareMCPGo()}, {"go-sdk", bareSDK()}} {
		url, stop, err := serve(s.h)
		if err != nil {
			return err
		}
		defer stop()
		var callers []*caller
		for n := range 8 {
			c, err := dial(url, bearer(n))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			callers = append(callers, c)
		}
		for i, clients := range []int{1, 8} {
			contestants[i] = append(contestants[i], bench.Contestant{Name: s.name, Run: func() (float64, error) { return rate(callers[:clients], calls) }})
		}
	}
	for i, clients := range []int{1, 8} {
		r, err := bench.Interleave(rounds, contestants[i]...)
		if err != nil {
			return err
		}
		report.Note("%d client(s): sophia %.0f, mcp-go %.0f, go-sdk %.0f calls/s", clients, r.Median("sophia"), r.Median("mcp-go"), r.Median("go-sdk"))
		report.Figure(fmt.Sprintf("calls_vs_mcp_go_%d", clients), r.Ratio("sophia", "mcp-go"), bench.AtLeast, 1)
		report.Figure(fmt.Sprintf("calls_vs_go_sdk_%d", clients), r.Ratio("sophia", "go-sdk"), bench.AtLeast, 2)
	}
	return nil
}

// rate is calls a second with all callers at once. The heap is collected
// before, or one server's garbage would be swept in the time of the next.
func rate(callers []*caller, calls int) (float64, error) {
	runtime.GC()
	var wg sync.WaitGroup
	errs := make(chan error, len(callers))
	begun := time.Now()
	for _, c := range callers {
		wg.Go(func() {
			for n := range calls / len(callers) {
				if err := c.echo(n); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(calls) / took.Seconds(), nil
	}
}
