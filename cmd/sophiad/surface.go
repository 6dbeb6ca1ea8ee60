package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"sophia/actors/connections"
	"sophia/actors/isolates"
	"sophia/actors/supervise"
	"sophia/actors/typecheck"
	"sophia/hostd/launch"
	"sophia/mcp/dispatch"
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/mcp/tools"
	"sophia/mcp/transport"
	"sophia/store/wiki"
)

// surface is what agents see: the tools, the one path of a call, and the
// endpoint.
type surface struct {
	vault      *wiki.Vault
	isolates   *isolates.Service
	checker    *typecheck.Service
	live       *connections.Connections
	dispatcher *dispatch.Dispatcher
	transport  *transport.Transport
}

func (d *sophiad) newSurface(programs launch.Programs) (_ *surface, err error) {
	s := &surface{
		isolates: isolates.New(isolates.Config{
			Spawn: isolates.Command(programs.Path("sophia-isolate")), Compile: isolates.Apart(programs.Path("sophia-compile")),
			Strict: d.config.StrictIsolates, Log: d.log,
		}),
		checker: typecheck.New(typecheck.Config{Program: typecheck.Find(programs.Dir), Dir: filepath.Join(d.dirs.Runtime, "typecheck"), Log: d.log}),
		live:    connections.New(connections.Config{}, func() *supervise.Tree { return d.sub(connections.ID)() }),
	}
	if err := os.MkdirAll(d.dirs.Vault(), 0o700); err != nil {
		return nil, err
	}
	if s.vault, err = wiki.Open(d.db, d.dirs.Vault(), d.dirs.WikiKey()); err != nil {
		return nil, err
	}
	box := inbox.New(d.db, d.write)
	all := tools.All(tools.Services{
		Data:  tools.Data{DB: d.db, Write: d.write, Texts: d.texts, Wiki: s.vault},
		Inbox: box, Presence: s.live, Runner: s.isolates, Checker: s.checker,
	})
	reg, err := registry.New(all...)
	if err != nil {
		return nil, err
	}
	if s.dispatcher, err = dispatch.New(dispatch.Config{Registry: reg, Gate: gateOf{d}, Inbox: box, Live: d.live, Log: d.log}); err != nil {
		return nil, err
	}
	s.transport, err = transport.New(transport.Config{
		Dispatcher: s.dispatcher, Authorities: d.connections, Admission: s.live, Version: version, Log: d.log,
		Instructions: "Call sophia.orient first. Compose three or more reads with sophia.execute_code.",
	})
	return s, err
}

// close ends the calls and then what they use.
func (s *surface) close(ctx context.Context) error {
	var errs []error
	if s.transport != nil {
		errs = append(errs, s.transport.Close(ctx))
	}
	if s.vault != nil {
		errs = append(errs, s.vault.Close())
	}
	return errors.Join(errs...)
}
