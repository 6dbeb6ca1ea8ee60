package ownerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/remitly-oss/httpsig-go"

	"sophia/hostd/ownerkey"
	"sophia/messages/problem"
)

// maxAnswer bounds an answer's body, in bytes.
const maxAnswer = 64 << 20

// Client calls the daemon. Make one with NewClient. Every error is a
// problem.Error or a ResponseError that unwraps to one; daemon_unreachable when
// nobody answers, timed_out when the caller's deadline passed.
type Client struct {
	socket   string
	signer   *httpsig.Signer
	http     *http.Client
	instance atomic.Pointer[string]
}

// ResponseError is a refusal by the daemon with its HTTP status.
type ResponseError struct {
	Status  int
	Problem *problem.Error
}

func (e *ResponseError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem, for errors.As and problem.CodeOf.
func (e *ResponseError) Unwrap() error { return e.Problem }

// NewClient makes a client that signs with key. It dials at the first call.
func NewClient(socket string, key *ownerkey.Key) (*Client, error) {
	signer, err := newSigner(key)
	if err != nil {
		return nil, err
	}
	c := &Client{socket: socket, signer: signer}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
			DisableCompression: true,
			// Dialling a unix socket costs microseconds, and a kept connection would
			// break when the daemon restarts.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	unknown := "unknown"
	c.instance.Store(&unknown)
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// newRequest signs one request.
func (c *Client) newRequest(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://sophia"+Root+path, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(err, "malformed_request", "%s is no path of the owner API", path)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(InstanceHeader, *c.instance.Load())
	if err := c.signer.Sign(req); err != nil {
		return nil, problem.Wrap(err, "owner_signature_not_made", "the request could not be signed")
	}
	// Signing put another reader in place of the body, which net/http can't
	// measure or rewind.
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = nil
	return req, nil
}

// do sends one call and returns its answer of status 2xx. A daemon that has
// restarted tells its new instance, and the call is signed again, once: it was
// refused before anything was done.
func (c *Client) do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, problem.Wrap(err, "malformed_request", "the request can't be written as JSON")
		}
	}
	for attempt := 0; ; attempt++ {
		req, err := c.newRequest(ctx, method, path, body)
		if err != nil {
			return nil, err
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, c.unreachable(ctx, err)
		}
		if resp.StatusCode < 300 {
			return resp, nil
		}
		err = readProblem(resp)
		if attempt == 0 && problem.CodeOf(err) == "owner_instance_changed" {
			if instance := resp.Header.Get(InstanceHeader); instance != "" {
				c.instance.Store(&instance)
				continue
			}
		}
		return nil, err
	}
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return problem.Wrap(err, "timed_out", "the daemon did not answer in time")
	case ctx.Err() != nil:
		return problem.New("interrupted", "stopped before the daemon answered").WithHint("What waited for an approval was withdrawn.")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return problem.Wrap(err, "daemon_unreachable", "no daemon answers on %s", c.socket).WithHint("Start it with: sophia up")
	}
	return problem.Wrap(err, "daemon_unreachable", "the daemon went away in the middle of the call").
		WithHint("Start it again with: sophia up")
}

func readProblem(resp *http.Response) error {
	defer resp.Body.Close()
	p := new(problem.Error)
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err != nil || p.Code == "" {
		p = problem.New("malformed_answer", "the daemon answered %s with something that is no problem report", resp.Status)
	}
	return &ResponseError{Status: resp.StatusCode, Problem: p}
}

// call sends one call and decodes its answer.
func call[Out any](ctx context.Context, c *Client, method, path string, in any) (Out, error) {
	var out Out
	resp, err := c.do(ctx, method, path, in)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&out); err != nil {
		if ctx.Err() != nil {
			return out, c.unreachable(ctx, err)
		}
		return out, problem.Wrap(err, "malformed_answer", "the daemon's answer can't be read")
	}
	return out, nil
}
