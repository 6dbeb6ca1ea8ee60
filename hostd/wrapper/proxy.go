package wrapper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sophia/messages/problem"
)

// Options of a Proxy. Zero durations take the defaults.
type Options struct {
	In  io.Reader
	Out io.Writer
	// Hiccup is how long the daemon may be away; 0: 30 s.
	Hiccup time.Duration
	// Drain is how long calls may go on after the end of the input; 0: 5 s.
	Drain time.Duration
	// MaxCalls bounds the calls in flight; 0: 128.
	MaxCalls int
}

// Proxy passes JSON-RPC between stdio and the daemon for one credential.
type Proxy struct {
	o       Options
	cred    *Credential
	daemon  *daemon
	session session

	out sync.Mutex

	mu      sync.Mutex
	calls   map[string]*underway // by request id
	ended   error                // why the lease is over
	life    context.Context      // ends with Run
	end     context.CancelCauseFunc
	working sync.WaitGroup // calls
	streams sync.WaitGroup // the session's own stream
}

// New makes a proxy. It does not read or write yet.
func New(c *Credential, o Options) (*Proxy, error) {
	if o.Hiccup == 0 {
		o.Hiccup = 30 * time.Second
	}
	if o.Drain == 0 {
		o.Drain = 5 * time.Second
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = 128
	}
	d, err := newDaemon(c.URL, c.Bearer)
	if err != nil {
		return nil, err
	}
	return &Proxy{o: o, cred: c, daemon: d, calls: map[string]*underway{}}, nil
}

// errOver ends a proxy whose credential is no longer good.
func errOver() error {
	return problem.New("lease_over", "the connection to Sophia has ended: its bearer is no longer accepted").
		WithHint("Start the agent again, or mint a new connection.")
}

// Prove has the endpoint accept the bearer, without a session.
func (p *Proxy) Prove(ctx context.Context) error {
	res, err := p.daemon.request(ctx, http.MethodPost, []byte(`{"jsonrpc":"2.0","id":"sophia-wrapper","method":"ping"}`), http.Header{})
	if err != nil {
		return p.unreachable(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return problem.New("invalid_or_revoked_bearer", "Authentication required. Provide a valid Bearer token.").
			WithHint("The owner mints one with: sophia connection mint.")
	case res.StatusCode == http.StatusForbidden || res.StatusCode >= 500:
		return problem.New("daemon_unreachable", "Sophia answered %s at %s", res.Status, p.cred.URL)
	}
	return nil
}

// Run serves until the input ends (nil), ctx ends, or the credential is no
// longer good (code lease_over, or the relay's own).
func (p *Proxy) Run(ctx context.Context) error {
	ctx, p.end = context.WithCancelCause(ctx)
	p.life = ctx
	defer func() {
		p.end(nil)
		p.streams.Wait()
		p.daemon.close() // also those that come back idle later
	}()
	if p.cred.Over != nil {
		go p.watch(ctx) // ends with the credential's Close
	}
	lines := make(chan line)
	go read(ctx, p.o.In, lines)
	for {
		select {
		case <-ctx.Done():
			p.finish(ctx, 0)
			if over := p.reason(); over != nil {
				return over
			}
			return ctx.Err()
		case l := <-lines:
			switch {
			case errors.Is(l.err, errTooLarge):
				p.write(failure(nil, rpcInvalid, problem.New("message_too_large", "a message has more than %d bytes", maxMessage)))
			case l.err != nil:
				p.finish(ctx, p.o.Drain)
				p.goodbye()
				return p.reason()
			case len(l.text) > 0:
				p.take(ctx, l.text)
			}
		}
	}
}

// reason is why the credential is no longer good, or nil.
func (p *Proxy) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

type line struct {
	text []byte
	err  error
}

// read runs beside: a blocked read of standard input can't be interrupted, and
// ends with the process.
func read(ctx context.Context, in io.Reader, out chan<- line) {
	br := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := readLine(br, maxMessage)
		select {
		case out <- line{text, err}:
		case <-ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, errTooLarge) {
			return
		}
	}
}

// take handles one message of the client. Requests run beside, so that a
// cancellation can overtake them; what has an order among itself does not.
func (p *Proxy) take(ctx context.Context, text []byte) {
	m, err := parseMessage(text)
	switch {
	case err != nil:
		p.write(failure(nil, rpcParse, err))
	case m.method == "initialize" && m.request():
		p.call(ctx, m)
	case m.request():
		p.begin(ctx, m)
	case m.cancel != nil:
		p.cancelCall(ctx, m)
	default:
		p.notify(ctx, m)
	}
}

// underway is a call in flight.
type underway struct{ cancel context.CancelFunc }

func (p *Proxy) begin(ctx context.Context, m message) {
	ctx, cancel := context.WithCancel(ctx)
	key, call := string(m.id), &underway{cancel}
	p.mu.Lock()
	_, twice := p.calls[key]
	full := len(p.calls) >= p.o.MaxCalls
	if !twice && !full {
		p.calls[key] = call
	}
	p.mu.Unlock()
	m.done = func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.calls[key] != call {
			return false
		}
		delete(p.calls, key)
		return true
	}
	switch {
	case twice:
		cancel()
		p.write(failure(m.id, rpcInvalid, problem.New("request_id_in_use", "a request with the id %s is still under way", key)))
		return
	case full:
		cancel()
		p.write(failure(m.id, rpcUnavailable, problem.New("too_many_calls", "%d calls are under way already", p.o.MaxCalls).WithHint("Wait for one to end.")))
		return
	}
	p.working.Go(func() {
		defer cancel()
		defer m.done()
		p.call(ctx, m)
	})
}

// cancelCall tells the daemon in the eras that have a message for it, and
// closes the call's stream, which says the same in both. The client wants no
// answer any more.
func (p *Proxy) cancelCall(ctx context.Context, m message) {
	p.mu.Lock()
	call := p.calls[string(m.cancel)]
	delete(p.calls, string(m.cancel)) // an answer that is on its way already is dropped
	p.mu.Unlock()
	if _, session := p.session.initialize(); session && m.era == "" {
		p.notify(ctx, m)
	}
	if call != nil {
		call.cancel()
	}
}

// finish waits for the calls under way, at most d, and then ends them.
func (p *Proxy) finish(ctx context.Context, d time.Duration) {
	done := make(chan struct{})
	go func() { p.working.Wait(); close(done) }()
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	p.end(nil)
	<-done
}

// goodbye ends the session at the daemon.
func (p *Proxy) goodbye() {
	h, _ := p.session.headers()
	if _, ok := p.session.initialize(); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if res, err := p.daemon.request(ctx, http.MethodDelete, nil, h); err == nil {
		res.Body.Close()
	}
}

// over ends the proxy: the credential is no longer good.
func (p *Proxy) over(why error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = why
	}
	p.mu.Unlock()
	p.end(why)
}

// watch waits for the end of the lease. A relay that ends without a word may be
// a daemon that comes back: then the bearer tells.
func (p *Proxy) watch(ctx context.Context) {
	why := p.cred.Over()
	if ctx.Err() != nil {
		return
	}
	if code := problem.CodeOf(why); code != "" && code != "channel_broken" {
		p.over(why)
		return
	}
	err := p.patiently(ctx, func() error { return p.Prove(ctx) })
	if err != nil && ctx.Err() == nil {
		p.over(err)
	}
}

// patiently tries until f is done or refused, at most for the hiccup's length.
func (p *Proxy) patiently(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(p.o.Hiccup)
	wait := 20 * time.Millisecond
	for {
		err := f()
		if err == nil || problem.CodeOf(err) != "daemon_unreachable" || time.Now().After(deadline) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		wait = min(wait*2, time.Second)
	}
}

// write sends one line to the client. A client that is gone ends the proxy by
// the end of the input, so an error here needs no handling.
func (p *Proxy) write(b []byte) {
	p.out.Lock()
	defer p.out.Unlock()
	_, _ = p.o.Out.Write(append(b, '\n'))
}

// conclude writes the answer to m. The call is no longer under way by then: the
// client may use its id again as soon as it reads the answer. A cancelled call
// has none.
func (p *Proxy) conclude(m message, raw []byte) error {
	if m.done != nil && !m.done() {
		return nil
	}
	return p.emit(raw)
}

// emit passes a message of the daemon on.
func (p *Proxy) emit(raw []byte) error {
	b, err := oneLine(raw)
	if err != nil {
		return problem.Wrap(err, "daemon_answer_malformed", "Sophia sent something that is not JSON")
	}
	p.write(b)
	return nil
}

// withID gives an answer without an id the request's; nil is no JSON-RPC.
func withID(raw []byte, id json.RawMessage) []byte {
	var v struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
	}
	if json.Unmarshal(raw, &v) != nil || v.JSONRPC == nil {
		return nil
	}
	if v.ID != nil && string(v.ID) != "null" {
		return raw
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	all["id"] = id
	b, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return b
}
