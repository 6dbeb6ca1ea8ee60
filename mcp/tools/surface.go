package tools

import (
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
)

// Services are what all tools together work on.
type Services struct {
	Data     Data
	Inbox    *inbox.Inbox
	Presence Presence // may be nil
	Runner   Runner
	Checker  Checker // may be nil: scripts run unchecked
}

// All are all tools: the whole surface.
func All(s Services) []registry.Tool {
	all := Orient(s.Data.DB, s.Inbox, s.Presence)
	all = append(all, Coordination(s.Data.DB, s.Data.Write, s.Inbox)...)
	all = append(all, System()...)
	all = append(all, Execute(s.Runner, s.Checker)...)
	return append(all, DataTools(s.Data)...)
}
