package ownerapi

import (
	"encoding/json"
	"time"

	"sophia/messages"
)

// Root is the prefix of every path.
const Root = "/api/owner"

// Header names.
const (
	InstanceHeader = "Sophia-Instance"        // which run of the daemon a request is for
	SocketHeader   = "Sophia-Terminal-Socket" // of an attach: where the terminal relay listens
)

// TokenSize is the length of an attach token in bytes.
const TokenSize = 32

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// Page is the uniform shape of every list.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Total  int    `json:"total"`
	Cursor string `json:"cursor,omitempty"`
}

func pageOf[T any](items []T) Page[T] {
	if items == nil {
		items = []T{}
	}
	return Page[T]{Items: items, Total: len(items)}
}

// Status is how the daemon is.
type Status struct {
	PID         int        `json:"pid"`
	Started     time.Time  `json:"started"`
	Version     string     `json:"version"`
	MCP         string     `json:"mcp"`    // URL
	Portal      string     `json:"portal"` // URL
	Unit        string     `json:"unit"`   // the systemd unit it runs in, "" in the foreground
	Connections int        `json:"connections"`
	Workspaces  int        `json:"workspaces"`
	Launches    int        `json:"launches"` // not yet ended
	Waiting     int        `json:"waiting"`  // approvals
	Trays       int        `json:"trays"`    // that listen now
	Mutations   uint64     `json:"mutations"`
	Tree        []TreeNode `json:"tree"`
}

// TreeNode is one supervised actor.
type TreeNode struct {
	Path     string `json:"path"`
	State    string `json:"state"`
	Restarts int    `json:"restarts"`
}

// MintRequest asks for a connection.
type MintRequest struct {
	Name      string           `json:"name"` // as shown in the audit log and on posts
	Profile   messages.Profile `json:"profile"`
	Surface   messages.Surface `json:"surface"`
	Scope     []string         `json:"scope"`
	ToolNames string           `json:"tool_names"`            // messages.DottedNames or UnderscoreNames
	TTL       int              `json:"ttl_seconds,omitempty"` // 0: until revoked
}

// Minted is a connection and where its bearer lies. The bearer itself does not
// travel: the daemon writes it to a file of mode 0600.
type Minted struct {
	messages.ConnectionRow
	BearerFile string `json:"bearer_file"`
	MCP        string `json:"mcp"` // URL
}

// AddWorkspace asks to register a checkout and to read its documents and code.
type AddWorkspace struct {
	Path string `json:"path"` // absolute
	Name string `json:"name,omitempty"`
}

// AddedWorkspace says what was read. A path that is registered already is read
// again and keeps its ID.
type AddedWorkspace struct {
	messages.Workspace
	New       bool `json:"new"`
	Documents int  `json:"documents"`
	Modules   int  `json:"modules"`
	Symbols   int  `json:"symbols"`
}

// StartRequest asks for a launch in a workspace. What is empty comes from the
// profile; the profile itself is the named one, else the harness's first, else
// the default.
type StartRequest struct {
	Resume        string           `json:"resume,omitempty"` // an ended launch, from whose plan comes what is empty
	Profile       string           `json:"profile,omitempty"`
	Harness       string           `json:"harness,omitempty"`
	Seat          string           `json:"seat,omitempty"`
	Permission    messages.Profile `json:"permission,omitempty"`
	Surface       messages.Surface `json:"surface,omitempty"`
	Scope         []string         `json:"scope,omitempty"`
	LeaseSeconds  int              `json:"lease_seconds,omitempty"`
	WriteApproval string           `json:"write_approval,omitempty"`
	Confine       string           `json:"confine,omitempty"`
	Isolated      bool             `json:"isolated,omitempty"`
	Arguments     []string         `json:"arguments,omitempty"` // for the harness, after its own
	Rows          uint16           `json:"rows,omitempty"`      // the terminal's first size
	Cols          uint16           `json:"cols,omitempty"`
}

// Mutation is one row of the journal.
type Mutation struct {
	Seq      uint64          `json:"seq"`
	At       time.Time       `json:"at"`
	Actor    messages.Actor  `json:"actor"`
	Table    string          `json:"table"`
	Key      string          `json:"key"`
	Before   json.RawMessage `json:"before"`
	After    json.RawMessage `json:"after"`
	Reason   string          `json:"reason,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Reverts  uint64          `json:"reverts,omitempty"`  // the mutation that this one undid
	Reverted uint64          `json:"reverted,omitempty"` // the mutation that undid this one
}

// JournalQuery narrows a journal list. Zero values don't.
type JournalQuery struct {
	Table  string
	Key    string
	Limit  int
	Cursor string
}

// RevertRequest asks to undo one mutation.
type RevertRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Tool is one tool as the owner may call it.
type Tool struct {
	Name        string          `json:"name"` // canonical, dotted
	Group       string          `json:"group"`
	Summary     string          `json:"summary"`
	Description string          `json:"description,omitempty"`
	Writes      bool            `json:"writes"`
	Elevated    bool            `json:"elevated"`
	Input       json.RawMessage `json:"input,omitempty"` // JSON Schema
	Output      json.RawMessage `json:"output,omitempty"`
}

// Harness is one contract, and the adopted tree that fulfils it if any.
type Harness struct {
	Harness  string                 `json:"harness"` // codex, claude-code
	Title    string                 `json:"title"`
	Version  string                 `json:"version"` // the pinned --version output
	Adopted  bool                   `json:"adopted"`
	Tree     string                 `json:"tree,omitempty"` // digest of the adopted tree
	Path     string                 `json:"path,omitempty"` // the executable that launches run
	Identity *messages.FileIdentity `json:"identity,omitempty"`
	At       *time.Time             `json:"at,omitempty"` // of the adoption
}

// AdoptRequest asks to copy a harness's tree into Sophia's own folder.
type AdoptRequest struct {
	Harness string `json:"harness"`
	Path    string `json:"path,omitempty"` // of its executable; "" looks on the owner's PATH
}
