package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/anthdm/hollywood/actor"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sophia/actors/connections"
	"sophia/actors/supervise"
	"sophia/mcp/dispatch"
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/mcp/transport"
	"sophia/messages"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type echoOut struct {
	Text string `json:"text"`
}

// ours is the real path over a real store. The echo is declared as a write of
// the owner's tables, so that the gate is asked: the profile lets it through.
type ours struct {
	http.Handler
	db        *store.DB
	transport *transport.Transport
	tree      *supervise.Tree
	dir       string
}

type authorities struct{ *tables.Bearers }

func (a authorities) ByBearer(_ context.Context, sum [sha256.Size]byte) (messages.Authority, bool, error) {
	row, ok, err := a.Find(sum)
	if err != nil || !ok || row.Revoked != nil || row.Expires != nil && row.Expires.Before(time.Now()) {
		return messages.Authority{}, false, err
	}
	return row.Authority, true, nil
}

func bearer(n int) string { return fmt.Sprintf("bearer-%d", n) }

func newOurs(conns int) (*ours, error) {
	dir, err := os.MkdirTemp("", "sophia-bench-mcp")
	if err != nil {
		return nil, err
	}
	db, err := store.Open(storetest.DiskOptions(dir))
	if err != nil {
		return nil, err
	}
	o := &ours{db: db, dir: dir}
	if err := mint(db, conns); err != nil {
		return nil, err
	}
	reg, err := registry.New(registry.Define(registry.Spec{Name: "echo", Group: registry.MutateKnowledge, Summary: "Echo", Description: "Says it back.",
		Effects: registry.Effects{Writes: []string{"nothing"}}},
		func(_ context.Context, _ *registry.Call, in echoIn) (echoOut, error) { return echoOut(in), nil }))
	if err != nil {
		return nil, err
	}
	d, err := dispatch.New(dispatch.Config{Registry: reg, Inbox: inbox.New(db, db)})
	if err != nil {
		return nil, err
	}
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return nil, err
	}
	if o.tree, err = supervise.Start(engine, "connections", connections.Policy()); err != nil {
		return nil, err
	}
	admission := connections.New(connections.Config{}, func() *supervise.Tree { return o.tree })
	o.transport, err = transport.New(transport.Config{Dispatcher: d, Authorities: authorities{tables.NewBearers(db)}, Admission: admission})
	o.Handler = o.transport
	return o, err
}

// mint inserts connections in portions that one commit can take.
func mint(db *store.DB, conns int) error {
	for from := 0; from < conns; from += 1000 {
		_, err := db.Write(context.Background(), store.System("bench", ""), func(tx *store.Tx) error {
			for n := from; n < min(from+1000, conns); n++ {
				sum := sha256.Sum256([]byte(bearer(n)))
				row := messages.ConnectionRow{Authority: messages.Authority{Connection: fmt.Sprintf("conn-%06x", n), Name: "bench",
					Profile: messages.Full, Surface: messages.SurfaceFull, Scope: []string{"*"}}, BearerSHA256: hex.EncodeToString(sum[:]), Created: tx.Now()}
				if err := tables.Connections.Insert(tx, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) Close() error {
	if err := o.transport.Close(context.Background()); err != nil {
		return err
	}
	if _, err := o.tree.Stop(context.Background()); err != nil {
		return err
	}
	if err := o.db.Close(); err != nil {
		return err
	}
	return os.RemoveAll(o.dir)
}

func bareMCPGo() http.Handler {
	s := mcpgoserver.NewMCPServer("bare", "1")
	s.AddTool(mcpgo.NewTool("sophia.echo", mcpgo.WithString("text", mcpgo.Required())), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		text, err := r.RequireString("text")
		if err != nil {
			return nil, err
		}
		return mcpgo.NewToolResultStructured(echoOut{text}, text), nil
	})
	return mcpgoserver.NewStreamableHTTPServer(s)
}

func bareSDK() http.Handler {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "bare", Version: "1"}, nil)
	gosdk.AddTool(s, &gosdk.Tool{Name: "sophia.echo"}, func(_ context.Context, _ *gosdk.CallToolRequest, in echoIn) (*gosdk.CallToolResult, echoOut, error) {
		return nil, echoOut(in), nil
	})
	return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, nil)
}
