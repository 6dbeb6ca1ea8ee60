// Package tools has Sophia's tools, one file a capability group, each a
// constructor that takes what its handlers need and returns declarations:
//
//	orient.go        orient, whoami
//	coordination.go  post_message, read_inbox, ack_messages
//	system.go        capability_catalog, get_sdk_types
//	execute.go       execute_code
//	data.go          the data groups: documents, knowledge, code, pages, journal, evidence, search
//	surface.go       all of them
//
// What a tool is called, takes, returns and may do is said once, in its
// declaration. testdata/snaps has what clients see of each; a change there is a
// change of the surface.
//
// Imports: mcp/registry, mcp/inbox, mcp/tsdecl, store, actors, messages.
package tools
