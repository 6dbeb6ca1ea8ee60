package launches

import (
	"cmp"
	"context"

	"sophia/actors/launches/lease"
	"sophia/messages/problem"
)

// resumed fills an order from the plan of the launch that it resumes, where it
// says nothing else. A resume is a launch: it is compiled, shown to the owner
// and checked like any other, against the machine as it is now.
//
// Errors: launch_not_found, launch_not_ended, launch_never_ran,
// resume_workspace_mismatch.
func (s *Service) resumed(ctx context.Context, o Order) (Order, error) {
	l, err := s.Get(ctx, o.Resumes)
	if err != nil {
		return o, err
	}
	p := l.Plan
	switch {
	case !lease.Final(l.State):
		return o, problem.New("launch_not_ended", "%s is %s; what has not ended can't be resumed", l.Launch, l.State).
			WithHint("Stop it first: sophia agent stop %s", l.Launch)
	case l.Unit.Name == "":
		return o, problem.New("launch_never_ran", "%s was %s before it ran; there is nothing to resume", l.Launch, l.State).
			WithHint("Start a new one: sophia agent start")
	case o.Workspace != p.Workspace:
		return o, problem.New("resume_workspace_mismatch", "%s ran in the workspace %s, not in %s", l.Launch, p.Workspace, o.Workspace).
			WithHint("Resume it there, or start a new one: sophia agent start")
	}
	o.Resumes = l.ID
	o.Profile, o.Harness, o.Seat = cmp.Or(o.Profile, p.Profile), cmp.Or(o.Harness, p.Harness), cmp.Or(o.Seat, p.Seat)
	o.Permission, o.Surface = cmp.Or(o.Permission, p.Permission), cmp.Or(o.Surface, p.Surface)
	o.LeaseSeconds = cmp.Or(o.LeaseSeconds, p.LeaseSeconds)
	o.WriteApproval, o.Confine = cmp.Or(o.WriteApproval, p.WriteApproval), cmp.Or(o.Confine, p.Confine)
	o.Isolated = o.Isolated || p.Isolated // isolation is not taken off in passing
	o.Scope, o.Arguments = orElse(o.Scope, p.Scope), orElse(o.Arguments, p.Arguments)
	return o, nil
}

func orElse(given, otherwise []string) []string {
	if given == nil {
		return otherwise
	}
	return given
}
