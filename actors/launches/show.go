package launches

import (
	"fmt"
	"strings"

	"sophia/messages"
)

// title is the line that the owner sees first.
func title(p messages.Plan) string {
	return fmt.Sprintf("Start %s (%s)", p.ProfileName, p.Seat)
}

// details is the plan as the owner reads it before approving.
func details(p messages.Plan) [][2]string {
	return [][2]string{
		{"launch", p.Launch},
		{"resumes", p.Resumes},
		{"harness", p.Harness + " " + p.HarnessVersion},
		{"program", p.HarnessIdentity.Path},
		{"sha256", p.HarnessIdentity.SHA256},
		{"workspace", p.WorkspaceDir.Path},
		{"permission", string(p.Permission)},
		{"tool surface", string(p.Surface)},
		{"scope", strings.Join(p.Scope, ", ")},
		{"lease", fmt.Sprintf("%d s", p.LeaseSeconds)},
		{"write approval", p.WriteApproval},
		{"confinement", p.Confine},
		{"arguments", strings.Join(p.Arguments, " ")},
	}
}
