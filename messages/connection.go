package messages

import "time"

// Profile is what a connection may write. See spec mcp-surface, Boundaries.
type Profile string

const (
	Observer  Profile = "observer"  // no write tools at all
	Assistant Profile = "assistant" // an approval for each write
	Full      Profile = "full"      // pre-approved but for elevated tools
	Portal    Profile = "portal"    // the owner's browser session; exempt from the gate
)

// Surface is which tools a connection lists.
type Surface string

const (
	SurfaceCore Surface = "core" // a lean list
	SurfaceFull Surface = "full" // all
	SurfaceCode Surface = "code" // execute_code and what is needed to use it; the rest inside the isolate
)

// Spelling of tool names on a connection.
const (
	DottedNames     = "dotted"     // sophia.query_knowledge
	UnderscoreNames = "underscore" // sophia_query_knowledge
)

// WriteApprovalAlways in an authority or a launch profile: each write waits for
// the owner. Any other value leaves it to the profile.
const WriteApprovalAlways = "always"

// Authority is who calls and what it may do, read from the connection's row on
// every call.
type Authority struct {
	Connection string   `json:"connection"` // conn-…
	Name       string   `json:"name"`       // as shown in the audit log and on posts
	Profile    Profile  `json:"profile"`
	Surface    Surface  `json:"surface"`
	Scope      []string `json:"scope"`            // entity ids; {"*"} is all, empty is nothing
	ToolNames  string   `json:"tool_names"`       // DottedNames or UnderscoreNames
	Lease      string   `json:"lease,omitempty"`  // of a managed launch's connection
	Launch     string   `json:"launch,omitempty"` // likewise

	WriteApproval string `json:"write_approval,omitempty"` // WriteApprovalAlways asks the owner before each write, whatever the profile
}

// ConnectionRow is a minted connection as it is stored. Only the bearer's
// SHA-256 is kept.
type ConnectionRow struct {
	Authority
	BearerSHA256 string     `json:"bearer_sha256"` // hex
	Created      time.Time  `json:"created"`
	LastPost     int64      `json:"last_post"` // the number of the last post before it: those up to it are not news to it
	Revoked      *time.Time `json:"revoked,omitempty"`
	Expires      *time.Time `json:"expires,omitempty"`
}

// Actor is who caused a write: the connection and its name as it was then.
type Actor struct {
	Connection string `json:"connection"`
	Name       string `json:"name"`
}
