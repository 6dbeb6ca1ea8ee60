package wrapper

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"time"

	"sophia/messages/problem"
)

// call sends a request and passes on what comes back: notifications and
// requests of the daemon, and the one answer. It answers by itself when none comes.
func (p *Proxy) call(ctx context.Context, m message) {
	err := p.patiently(ctx, func() error { return p.try(ctx, m) })
	if err == nil {
		return
	}
	if over := p.reason(); over != nil {
		err = over
	} else if ctx.Err() != nil {
		return // the client has cancelled, or is gone
	}
	_ = p.conclude(m, failure(m.id, rpcUnavailable, err))
}

// try is one attempt. An error with the code daemon_unreachable may be tried again.
func (p *Proxy) try(ctx context.Context, m message) error {
	header, lives := m.headers(), 0
	if m.era == "" && m.method != "initialize" {
		header, lives = p.session.headers()
	}
	res, err := p.daemon.request(ctx, http.MethodPost, m.raw, header)
	if err != nil {
		return p.undelivered(m, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		p.over(errOver())
		return errOver()
	case res.StatusCode == http.StatusNotFound && header.Get(headerSession) != "":
		if err := p.renew(ctx, lives); err != nil {
			return err
		}
		return problem.New("daemon_unreachable", "Sophia has forgotten the session; it was made again")
	case res.StatusCode == http.StatusServiceUnavailable:
		return problem.New("daemon_unreachable", "Sophia is starting or stopping")
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return p.stream(m, res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxMessage+1))
	if err != nil {
		return p.undelivered(m, err)
	}
	if len(body) > maxMessage {
		return problem.New("daemon_answer_too_large", "Sophia's answer has more than %d bytes", maxMessage)
	}
	answer := withID(body, m.id)
	if answer == nil {
		return refusalOf(res, body)
	}
	if m.method == "initialize" && m.era == "" && res.StatusCode == http.StatusOK {
		p.session.began(m, res.Header.Get(headerSession), answer)
	}
	return p.conclude(m, answer)
}

// refusalOf is an answer that is not JSON-RPC: the daemon's own error shape, or
// none at all.
func refusalOf(res *http.Response, body []byte) error {
	var e problem.Error
	if json.Unmarshal(body, &e) == nil && e.Code != "" {
		return &e
	}
	return problem.New("daemon_refused", "Sophia answered %s", res.Status)
}

// undelivered sorts what happens to a request whose answer did not come.
func (p *Proxy) undelivered(m message, err error) error {
	_, refused := errors.AsType[*problem.Error](err) // before anything was sent
	dial, ok := errors.AsType[*net.OpError](err)
	if refused || ok && dial.Op == "dial" || m.repeatable() {
		return p.unreachable(err)
	}
	return problem.Wrap(err, "daemon_connection_lost", "the connection to Sophia broke during the call; it may or may not have taken effect").
		WithHint("Look before doing it again: sophia.list_mutations shows what was written.")
}

func (p *Proxy) unreachable(err error) error {
	if why, ok := errors.AsType[*problem.Error](err); ok {
		return why
	}
	return problem.Wrap(err, "daemon_unreachable", "Sophia can't be reached at %s", p.cred.URL).WithHint("Start it with: sophia up")
}

// stream passes on a call's events in their order, until its answer.
func (p *Proxy) stream(m message, res *http.Response) error {
	done := errors.New("answered")
	err := events(res.Body, func(data []byte, _ string) error {
		if len(data) == 0 {
			return nil // a priming event
		}
		if answers(data, m.id) {
			if m.method == "initialize" && m.era == "" {
				p.session.began(m, res.Header.Get(headerSession), data)
			}
			if err := p.conclude(m, data); err != nil {
				return err
			}
			return done
		}
		return p.emit(data)
	})
	switch {
	case errors.Is(err, done):
		return nil
	case errors.Is(err, errTooLarge):
		return problem.New("daemon_answer_too_large", "Sophia's answer has more than %d bytes", maxMessage)
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return p.undelivered(m, err)
}

// notifyBound is how long a notification may take; those that follow wait.
const notifyBound = 10 * time.Second

// notify sends what has no answer: notifications, and the client's answers to
// requests of the daemon. In order, so one after the other.
func (p *Proxy) notify(ctx context.Context, m message) {
	ctx, cancel := context.WithTimeout(ctx, notifyBound)
	defer cancel()
	_ = p.patiently(ctx, func() error {
		header, lives := m.headers(), 0
		if m.era == "" {
			header, lives = p.session.headers()
		}
		res, err := p.daemon.request(ctx, http.MethodPost, m.raw, header)
		if err != nil {
			return p.undelivered(m, err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
		switch {
		case res.StatusCode == http.StatusUnauthorized:
			p.over(errOver())
		case res.StatusCode == http.StatusNotFound && header.Get(headerSession) != "":
			return p.renew(ctx, lives)
		}
		return nil
	})
	if m.method == "notifications/initialized" && m.era == "" {
		p.listen()
	}
}

// renew makes the session again with the client's own initialize, which the
// client does not hear of. lives tells a session that was renewed meanwhile.
func (p *Proxy) renew(ctx context.Context, lives int) error {
	s := &p.session
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if _, now := s.headers(); now != lives {
		return nil
	}
	first, ok := s.initialize()
	if !ok {
		return problem.New("session_lost", "Sophia has forgotten the session")
	}
	res, err := p.daemon.request(ctx, http.MethodPost, first.raw, http.Header{})
	if err != nil {
		return p.undelivered(first, err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		p.over(errOver())
		return errOver()
	}
	var answer []byte
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" {
		found := errors.New("found")
		err = events(res.Body, func(data []byte, _ string) error {
			if answers(data, first.id) {
				answer = append([]byte(nil), data...)
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			err = nil
		}
	} else {
		answer, err = io.ReadAll(io.LimitReader(res.Body, maxMessage))
	}
	if err != nil {
		return p.undelivered(first, err)
	}
	s.began(first, res.Header.Get(headerSession), answer)
	h, now := s.headers()
	if now == lives {
		return refusalOf(res, answer)
	}
	done, err := p.daemon.request(ctx, http.MethodPost, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), h)
	if err != nil {
		return p.undelivered(first, err)
	}
	return done.Body.Close()
}

// listen keeps the session's own stream open, for what the daemon says outside
// of any call. It follows a renewed session and ends where there is no such stream.
func (p *Proxy) listen() {
	ctx := p.life
	p.streams.Go(func() {
		last, wait := "", 100*time.Millisecond
		for ctx.Err() == nil {
			h, lives := p.session.headers()
			h = maps.Clone(h)
			h.Set("Accept", "text/event-stream")
			if last != "" {
				h.Set("Last-Event-ID", last)
			}
			res, err := p.daemon.request(ctx, http.MethodGet, nil, h)
			if err == nil {
				stop := false
				switch res.StatusCode {
				case http.StatusOK:
					wait = 100 * time.Millisecond
					_ = events(res.Body, func(data []byte, id string) error {
						if last = id; len(data) == 0 {
							return nil
						}
						return p.emit(data)
					})
				case http.StatusUnauthorized:
					p.over(errOver())
					stop = true
				case http.StatusNotFound:
					last, stop = "", p.renew(ctx, lives) != nil
				case http.StatusServiceUnavailable:
				default:
					stop = true
				}
				res.Body.Close()
				if stop {
					return
				}
			}
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
			}
			wait = min(wait*2, 5*time.Second)
		}
	})
}
