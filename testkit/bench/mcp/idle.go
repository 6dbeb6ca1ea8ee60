package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"time"

	"sophia/testkit/bench"
)

// idle measures what a connection costs that has said hello, made a call and
// is quiet since: its session and its actor, not its TCP connection, which is
// net/http's and the same for everyone.
func idle(report *bench.Report, live int) error {
	own, err := newOurs(live)
	if err != nil {
		return err
	}
	defer own.Close()
	url, stop, err := serve(own)
	if err != nil {
		return err
	}
	defer stop()
	var ten []*caller
	for n := range 10 {
		c, err := dial(url, bearer(n))
		if err != nil {
			return err
		}
		ten = append(ten, c)
	}
	few, err := p99(ten)
	if err != nil {
		return err
	}
	before := heap()
	if err := quiet(own, 10, live); err != nil {
		return err
	}
	ours := float64(heap()-before) / float64(live-10)
	many, err := p99(ten)
	if err != nil {
		return err
	}

	peer := bareMCPGo()
	before = heap()
	if err := quiet(peer, 0, live); err != nil {
		return err
	}
	theirs := float64(heap()-before) / float64(live)
	runtime.KeepAlive(peer)
	report.Note("idle connection: sophia %.0f bytes, mcp-go's session %.0f bytes", ours, theirs)
	report.Note("p99 of a call: %v with 10 connections, %v with %d", few, many, live)
	report.Figure("idle_connection_kb", ours/1024, bench.AtMost, 8)
	report.Figure("p99_many_vs_ten", float64(many)/float64(few), bench.AtMost, 2)
	return nil
}

// quiet makes connections that say hello and make one call.
func quiet(h http.Handler, from, to int) error {
	for n := from; n < to; n++ {
		c := &caller{url: "http://localhost", bearer: bearer(n)}
		for i, body := range []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, call(n)} {
			r, err := c.request(body)
			if err != nil {
				return err
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 300 {
				return fmt.Errorf("connection %d: %d %s", n, w.Code, w.Body)
			}
			if i == 0 {
				c.session = w.Header().Get("Mcp-Session-Id")
			}
		}
	}
	return nil
}

func heap() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func p99(callers []*caller) (time.Duration, error) {
	var all []float64
	for n := range 300 {
		for _, c := range callers {
			begun := time.Now()
			if err := c.echo(n); err != nil {
				return 0, err
			}
			all = append(all, float64(time.Since(begun)))
		}
	}
	return time.Duration(bench.Quantile(all, 0.99)), nil
}
