package ownerapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"sophia/messages"
	"sophia/messages/problem"
)

// Tray is a tray's connection to the daemon.
type Tray struct {
	conn *net.UnixConn
	out  *lineWriter

	mu      sync.Mutex
	queue   []messages.TrayEvent
	wake    chan struct{} // closed and replaced when queue or err changes
	ready   bool          // what was open has come
	told    bool          // and was handed out
	err     error
	seq     uint64
	pending map[uint64]chan *problem.Error
}

// Tray connects as a tray. name is how the owner knows it, e.g. "terminal on
// /dev/pts/3". The daemon takes only the packaged tray, so in any other program
// this fails with approval_needs_presence. Once the daemon has looked at the
// process, and before it is answered, seal closes the process to others.
func (c *Client) Tray(ctx context.Context, name string, seal func() error) (*Tray, error) {
	path := "/tray?name=" + url.QueryEscape(name)
	for attempt := 0; ; attempt++ {
		tray, err := c.dialTray(ctx, path, seal)
		if refusal, ok := errors.AsType[*ResponseError](err); ok && attempt == 0 && refusal.Problem.Code == "owner_instance_changed" {
			continue
		}
		return tray, err
	}
}

func (c *Client) dialTray(ctx context.Context, path string, seal func() error) (*Tray, error) {
	req, err := c.newRequest(ctx, "GET", path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", trayProtocol)
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	conn := dialed.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	tray, err := c.upgrade(ctx, conn, req, seal)
	if !stop() && err == nil {
		err = c.unreachable(ctx, ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	go tray.read()
	return tray, nil
}

func (c *Client) upgrade(ctx context.Context, conn *net.UnixConn, req *http.Request, seal func() error) (*Tray, error) {
	if err := req.Write(conn); err != nil {
		return nil, c.unreachable(ctx, err)
	}
	// Byte by byte: what follows the header belongs to the challenge, which
	// reads the socket itself.
	reader := bufio.NewReaderSize(oneByte{conn}, 16)
	resp, err := http.ReadResponse(reader, req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		if instance := resp.Header.Get(InstanceHeader); instance != "" {
			c.instance.Store(&instance)
		}
		return nil, readProblem(resp)
	}
	if err := answerChallenge(conn, seal); err != nil {
		return nil, problem.Wrap(err, "approval_needs_presence", "the daemon did not take this process for the packaged tray").
			WithHint("Its log says why.")
	}
	return &Tray{conn: conn, out: &lineWriter{conn: conn}, wake: make(chan struct{}), pending: map[uint64]chan *problem.Error{}}, nil
}

type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) {
	if len(p) > 1 {
		p = p[:1]
	}
	return o.Reader.Read(p)
}

func (t *Tray) read() {
	decoder := json.NewDecoder(t.conn)
	for {
		var line trayLine
		if err := decoder.Decode(&line); err != nil {
			t.end(err)
			return
		}
		t.mu.Lock()
		switch {
		case line.Type == "event" && line.Event != nil:
			t.queue = append(t.queue, *line.Event)
		case line.Type == "ready":
			t.ready = true
		case line.Type == "result":
			if waiting, ok := t.pending[line.Seq]; ok {
				delete(t.pending, line.Seq)
				waiting <- line.Error
			}
		}
		t.signal()
		t.mu.Unlock()
	}
}

func (t *Tray) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = problem.Wrap(err, "daemon_unreachable", "the connection to the daemon ended").WithHint("The tray connects again by itself.")
	}
	for seq, waiting := range t.pending {
		delete(t.pending, seq)
		close(waiting)
	}
	t.signal()
}

func (t *Tray) signal() { close(t.wake); t.wake = make(chan struct{}) }

// Next waits for events, and returns those that came. The first call returns
// with all that is open, which may be nothing.
func (t *Tray) Next(ctx context.Context) ([]messages.TrayEvent, error) {
	for {
		t.mu.Lock()
		events, wake, ready, err := t.queue, t.wake, t.ready, t.err
		if ready && len(events) > 0 || err != nil {
			t.queue = nil
		}
		first := ready && !t.told
		t.told = t.told || ready
		t.mu.Unlock()
		switch {
		case ready && len(events) > 0, first:
			return events, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Decide answers a request, and returns once the daemon has recorded the answer
// or refused it: approval_already_decided when another was first.
func (t *Tray) Decide(ctx context.Context, id, digest, outcome, reason string) error {
	t.mu.Lock()
	if t.err != nil {
		defer t.mu.Unlock()
		return t.err
	}
	t.seq++
	seq, result := t.seq, make(chan *problem.Error, 1)
	t.pending[seq] = result
	t.mu.Unlock()
	if err := t.out.write(trayLine{Type: "decide", Seq: seq, ID: id, Digest: digest, Outcome: outcome, Reason: reason}); err != nil {
		t.end(err)
		return t.failure()
	}
	select {
	case refusal, answered := <-result:
		if !answered {
			return t.failure()
		}
		if refusal != nil {
			return refusal
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Tray) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close ends the connection.
func (t *Tray) Close() { t.conn.Close() }
