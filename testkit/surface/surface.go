package surface

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/connections"
	"sophia/actors/isolates"
	"sophia/actors/supervise"
	"sophia/actors/typecheck"
	"sophia/actors/writer"
	"sophia/mcp/dispatch"
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/mcp/tools"
	"sophia/mcp/transport"
	"sophia/messages"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/engine"
	"sophia/store/importcode"
	"sophia/store/importdoc"
	"sophia/store/tables"
	"sophia/store/wiki"
)

// Options of Open. Dir is needed.
type Options struct {
	Dir     string // where the store is made
	Isolate string // the program sophia-isolate; "" runs no scripts
	Compile string // the program sophia-compile, with it
	Checker string // the program tsgo; "" checks no types
	Gate    dispatch.Gate
	Engine  engine.Engine // the embedded one in Dir by default
}

// Surface is an open one.
type Surface struct {
	*dispatch.Dispatcher
	DB       *store.DB
	Write    store.Writer
	Data     tools.Data
	Isolates *isolates.Service
	Checker  *typecheck.Service
	Endpoint *transport.Transport // /mcp, for bearers that Mint gave out

	tree *supervise.Tree
}

// Open makes or opens the store and starts what serves calls.
func Open(o Options) (_ *Surface, err error) {
	s := &Surface{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return s, err
	}
	texts, err := blobs.Open(filepath.Join(o.Dir, "blobs"))
	if err != nil {
		return s, err
	}
	if s.DB, err = store.Open(store.Options{Dir: filepath.Join(o.Dir, "store"), HighWater: filepath.Join(o.Dir, "highwater"), Tables: tables.All(), Engine: o.Engine}); err != nil {
		return s, err
	}
	importdoc.Attach(s.DB, texts)
	vault, err := wiki.Open(s.DB, filepath.Join(o.Dir, "vault"), filepath.Join(o.Dir, "wiki.key"))
	if err != nil {
		return s, err
	}
	s.Isolates = isolates.New(isolates.Config{Spawn: isolates.Command(o.Isolate), Compile: isolates.Apart(o.Compile), Log: quiet()})
	s.Checker = typecheck.New(typecheck.Config{Program: o.Checker, Dir: filepath.Join(o.Dir, "typecheck"), Log: quiet()})
	kids := []supervise.Spec{writer.Spec(s.DB), s.Checker.Spec(), connections.Spec()}
	if o.Isolate != "" {
		kids = append(kids, s.Isolates.Spec())
	}
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return s, err
	}
	if s.tree, err = supervise.Start(engine, "surface", supervise.Policy{Strategy: supervise.RestForOne, Max: 5, Within: time.Minute}, kids...); err != nil {
		return s, err
	}
	s.Write = writer.New(s.tree.Lookup(writer.ID))
	s.Data = tools.Data{DB: s.DB, Write: s.Write, Texts: texts, Wiki: vault}
	box := inbox.New(s.DB, s.Write)
	reg, err := registry.New(tools.All(tools.Services{Data: s.Data, Inbox: box, Runner: s.Isolates, Checker: s.Checker})...)
	if err != nil {
		return s, err
	}
	if s.Dispatcher, err = dispatch.New(dispatch.Config{Registry: reg, Gate: o.Gate, Inbox: box, Log: quiet()}); err != nil {
		return s, err
	}
	live := connections.New(connections.Config{}, func() *supervise.Tree { return s.tree.Sub(connections.ID) })
	s.Endpoint, err = transport.New(transport.Config{Dispatcher: s.Dispatcher, Authorities: bearers{tables.NewBearers(s.DB)}, Admission: live, Log: quiet()})
	return s, err
}

// bearers looks connections up.
type bearers struct{ *tables.Bearers }

func (b bearers) ByBearer(_ context.Context, sum [sha256.Size]byte) (messages.Authority, bool, error) {
	row, ok, err := b.Find(sum)
	return row.Authority, ok && row.Revoked == nil, err
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Mint inserts a connection. Its bearer is its identifier.
func (s *Surface) Mint(ctx context.Context, a messages.Authority) error {
	_, err := s.Write.Write(ctx, cause, func(tx *store.Tx) error {
		sum := sha256.Sum256([]byte(a.Connection))
		return tables.Connections.Insert(tx, messages.ConnectionRow{Authority: a, BearerSHA256: hex.EncodeToString(sum[:]), Created: tx.Now()})
	})
	return err
}

var cause = store.System("importer", "")

// Import imports a folder's documents and code as a workspace.
func (s *Surface) Import(ctx context.Context, workspace, path, entity string) error {
	_, err := importdoc.Importer{DB: s.DB, Write: s.Write, Texts: s.Data.Texts}.Import(ctx, cause, importdoc.Folder{Workspace: workspace, Path: path, Entity: entity})
	if err != nil {
		return err
	}
	_, err = importcode.Import(ctx, s.DB, s.Write, cause, importcode.Folder{Workspace: workspace, Path: path, Entity: entity})
	return err
}

// Do makes a call as args that marshal, and decodes what it answers into v, which
// may be nil. A refusal is the error.
func (s *Surface) Do(ctx context.Context, a messages.Authority, tool string, args, v any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	r := s.Call(ctx, dispatch.Request{Authority: a, Tool: tool, Args: raw})
	if r.Err != nil {
		return r.Err
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(r.Body, v)
}

// Close ends all of it.
func (s *Surface) Close() error {
	var errs []error
	if s.Endpoint != nil {
		errs = append(errs, s.Endpoint.Close(context.Background()))
	}
	if s.tree != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		left, err := s.tree.Stop(ctx)
		if len(left) > 0 {
			err = errors.Join(err, errors.New("surface: actors that did not stop"))
		}
		errs = append(errs, err)
	}
	if s.Data.Wiki != nil {
		errs = append(errs, s.Data.Wiki.Close())
	}
	if s.DB != nil {
		errs = append(errs, s.DB.Close())
	}
	return errors.Join(errs...)
}
