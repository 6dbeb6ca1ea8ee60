package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"sophia/actors/edge"
	"sophia/hostd/broker"
	"sophia/hostd/config"
	"sophia/hostd/daemon"
	"sophia/hostd/doctor"
	"sophia/hostd/harness"
	"sophia/hostd/login"
	"sophia/hostd/ownerapi"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
)

// serve opens the listeners and says where they are.
func (d *sophiad) serve(ctx context.Context) error {
	tray, err := d.identity(ctx, "sophia-tray")
	if err != nil {
		return err
	}
	wrapper, err := d.identity(ctx, "sophia-wrapper")
	if err != nil {
		return err
	}
	d.held = []doctor.Program{{Name: "sophia-tray", SHA256: tray.SHA256}, {Name: "sophia-wrapper", SHA256: wrapper.SHA256}}
	// The loopback address is taken before anything else is told of it, and
	// kept for later lives of the listener.
	first, err := net.Listen("tcp", d.config.Listen)
	if err != nil {
		return listenFailed(d.config.Listen, err)
	}
	at := first.Addr().String()
	d.address = daemon.Address{MCP: "http://" + at + "/mcp", Portal: "http://" + at + "/", PID: os.Getpid(), Started: d.started}
	// Whom the owner's socket has answered may ask where the rest is.
	if err := daemon.WriteAddress(d.dirs.Address(), d.address); err != nil {
		return err
	}

	logins := d.loginTerminals(ctx)
	owner := func() (*ownerapi.Server, error) {
		return ownerapi.New(ownerapi.Config{Owner: d.public, Services: d.services(), Presence: d.presence(tray.SHA256), Login: logins,
			Bearers: d.dirs.Bearers(), MCP: func() string { return d.address.MCP }, Log: d.log})
	}
	_, err = d.tree.Add(edge.Spec(
		edge.Listener{ID: "http", Open: func() (edge.Server, error) {
			l := first
			if first = nil; l == nil {
				if l, err = net.Listen("tcp", at); err != nil {
					return nil, listenFailed(at, err)
				}
			}
			api, err := owner()
			if err != nil {
				return nil, err
			}
			return &httpServer{l: l, s: &http.Server{Handler: d.mux(api), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
				MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn)}}, nil
		}},
		edge.Listener{ID: "owner", Open: func() (edge.Server, error) {
			l := d.owner
			if d.owner = nil; l == nil {
				if l, err = ownerapi.Listen(d.dirs.OwnerSocket()); err != nil {
					return nil, err
				}
			}
			api, err := owner()
			return &ownerServer{l: l, Server: api}, err
		}},
		edge.Listener{ID: "broker", Open: func() (edge.Server, error) {
			s, err := broker.Start(broker.Config{Path: d.dirs.Broker(), Wrapper: func() string { return wrapper.SHA256 },
				Redeemer: d.relays, Receipts: d.relays, Log: d.log})
			return &brokerServer{s: s, done: make(chan struct{})}, err
		}},
	))
	return err
}

// presence is who may answer approvals.
func (d *sophiad) presence(tray string) ownerapi.KernelPresence {
	p := ownerapi.KernelPresence{SHA256: tray}
	if at := d.logins(); at != nil {
		p.Terminal = at.Check
	}
	return p
}

// logins says at which terminals the owner is, nil where that is not asked.
func (d *sophiad) logins() *login.Checker {
	a := d.config.Approvals
	if a.Presence == config.PresenceProgram {
		return nil
	}
	return &login.Checker{UID: uint32(os.Geteuid()), Terminals: a.Terminals, Required: a.Presence == config.PresenceLogin}
}

// loginTerminals tells the terminals of the owner's logins from others, nil where
// anybody can make one that passes for theirs.
func (d *sophiad) loginTerminals(ctx context.Context) func(context.Context, peer.Terminal) error {
	if d.anywhere(ctx) != "" {
		return nil
	}
	return d.logins().Check
}

// anywhere is why the tray is taken on any terminal, "" when it isn't.
func (d *sophiad) anywhere(ctx context.Context) string {
	at := d.logins()
	switch {
	case at == nil:
		return "config.toml says so (approvals.presence)"
	case !at.Applies(ctx):
		return "this machine has no logind that knows who is logged in"
	}
	return ""
}

func listenFailed(at string, err error) error {
	return problem.Wrap(err, "listen_failed", "can't listen on %s", at).
		WithHint("Another program may have it. Set another address in config.toml: listen = \"127.0.0.1:0\" takes a free one.")
}

func (d *sophiad) identity(ctx context.Context, program string) (messages.FileIdentity, error) {
	return harness.IdentifyOwn(ctx, d.host.Programs.Path(program))
}

// mux is what the loopback address serves.
func (d *sophiad) mux(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(ownerapi.Root+"/", api)
	mux.Handle("/", d.surface.transport)
	mux.HandleFunc("GET /{$}", front)
	return mux
}

// frontPage is what a browser gets. It says nothing about the owner's state:
// whoever can reach the loopback address can read it.
const frontPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sophia</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}code{font:0.9em ui-monospace,monospace;padding:.1em .3em;border:1px solid #8886;border-radius:4px}</style>
<h1>Sophia is running</h1>
<p>It sits between your agents and your state. Agents talk to it over MCP at <code>/mcp</code>; you talk to it with the command <code>sophia</code>.</p>
<ul>
<li>Connect an agent: <code>sophia connect claude-code</code>, <code>codex</code>, <code>cursor</code> or <code>generic</code></li>
<li>Start one: <code>sophia agent start</code></li>
<li>See and answer what waits for you: <code>sophia-tray --terminal</code></li>
<li>See what was changed, and undo it: <code>sophia journal list</code></li>
</ul>
</html>
`

func front(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write([]byte(frontPage)) // the browser has gone
}

type httpServer struct {
	l net.Listener
	s *http.Server
}

func (h *httpServer) Serve() error {
	if err := h.s.Serve(h.l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (h *httpServer) Shutdown(ctx context.Context) error {
	if err := h.s.Shutdown(ctx); err != nil {
		return h.s.Close()
	}
	return nil
}

type ownerServer struct {
	l net.Listener
	*ownerapi.Server
}

func (o *ownerServer) Serve() error { return o.Server.Serve(o.l) }

// brokerServer is the broker, which serves from its start on.
type brokerServer struct {
	s    *broker.Server
	done chan struct{}
}

func (b *brokerServer) Serve() error { <-b.done; return nil }

func (b *brokerServer) Shutdown(context.Context) error {
	defer close(b.done)
	return b.s.Close()
}
