package dispatch_test

import (
	"sophia/actors/approvals"
	"sophia/mcp/dispatch"
)

// The gate of the daemon is one.
var _ dispatch.Gate = (*approvals.Gate)(nil)
