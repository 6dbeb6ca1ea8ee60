package world

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Agent is a client of another make that uses a minted connection.
type Agent struct{ *mcp.ClientSession }

// Minted is a connection of Mint.
type Minted struct {
	Connection string `json:"connection"`
	BearerFile string `json:"bearer_file"`
	MCP        string `json:"mcp"`
}

// Bearer is what the connection's file has.
func (m Minted) Bearer() (string, error) {
	b, err := os.ReadFile(m.BearerFile)
	return strings.TrimSpace(string(b)), err
}

// Mint mints a connection as the owner does.
func (w *World) Mint(ctx context.Context, name string, flags ...string) (m Minted, err error) {
	return m, w.Sophia(ctx, &m, append([]string{"connection", "mint", name}, flags...)...)
}

// Connect connects with a minted connection to the endpoint at url.
func Connect(ctx context.Context, url string, m Minted) (*Agent, error) {
	bearer, err := m.Bearer()
	if err != nil {
		return nil, err
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "world", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: withBearer(bearer)}, MaxRetries: -1}, nil)
	if err != nil {
		return nil, err
	}
	return &Agent{s}, nil
}

// Refusal is a tool's structured error.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (r Refusal) Error() string { return r.Message + " (" + r.Code + ")" }

// Call makes a tool call and decodes its structured content. A refusal is a
// Refusal.
func (a *Agent) Call(ctx context.Context, tool string, args, into any) error {
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	body, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return err
	}
	if r.IsError {
		var why Refusal
		if err := json.Unmarshal(body, &why); err != nil {
			return err
		}
		return why
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

type withBearer string

func (b withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
