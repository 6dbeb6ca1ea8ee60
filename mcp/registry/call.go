package registry

import (
	"context"

	"sophia/messages"
)

// Call is what a handler knows about the call that it serves.
type Call struct {
	ID        string // call-…, for the journal's cause
	Tool      string // canonical, sophia.…
	Authority messages.Authority
	Inside    bool              // made by a script in the isolate
	Approval  string            // ap-…, the approval that let it through, or ""
	Approved  []messages.Change // what the owner was shown and approved; nil where the tool has no preview, or nobody was asked
	Callable  *Set              // what this caller may call from where it is: Direct or Within
	Direct    *Set              // what the connection may call directly
	Within    *Set              // what its scripts may call
	// Report shows progress to the caller; nil when nobody asked for it.
	Report func(done, total float64, message string)
	// Dispatch makes another call with this caller's authority, as from
	// inside a script. Only tools that compose others use it.
	Dispatch func(ctx context.Context, tool string, args []byte) (body []byte, err error)
}

// Actor is who the journal says it was.
func (c *Call) Actor() messages.Actor {
	return messages.Actor{Connection: c.Authority.Connection, Name: c.Authority.Name}
}

// Progress shows how far the call is, where the caller asked for it.
func (c *Call) Progress(done, total float64, message string) {
	if c.Report != nil {
		c.Report(done, total, message)
	}
}

// Page is the uniform envelope of every list. Items of a list-returning tool
// may be cut to the asked-for keys after the handler has returned.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Total  int    `json:"total" jsonschema:"how many there are in all, not only on this page"`
	Cursor string `json:"cursor,omitempty" jsonschema:"pass it back for the next page; absent on the last"`
}
