package launch

import (
	"cmp"
	"context"
	"slices"

	"sophia/actors/launches"
	"sophia/hostd/harness"
	"sophia/hostd/unit"
	"sophia/messages"
	"sophia/messages/problem"
)

// Workspaces finds what a launch is about. Errors: workspace_not_found,
// profile_not_found.
type Workspaces interface {
	Get(ctx context.Context, id string) (messages.Workspace, error)
	Profiles(ctx context.Context, workspace string) ([]messages.LaunchProfile, error)
}

// Installations finds the program of a harness: the adopted tree where there is
// one, else what lies on PATH. tree is "" for a program that was not adopted.
type Installations interface {
	Program(ctx context.Context, harness string) (path, tree string, err error)
}

// Planner compiles plans. It implements launches.Planner.
type Planner struct {
	Workspaces    Workspaces
	Installations Installations
	Verifier      harness.Verifier
	Programs      Programs

	ids identities
}

// writeByProfile is the write approval that the permission profile implies.
const writeByProfile = "profile"

// Longest and shortest lease, in seconds.
const (
	minLease = 60
	maxLease = 7 * 24 * 3600
)

// Compile implements launches.Planner.
func (p *Planner) Compile(ctx context.Context, o launches.Order) (messages.Plan, error) {
	ws, err := p.Workspaces.Get(ctx, o.Workspace)
	if err != nil {
		return messages.Plan{}, err
	}
	dir, err := directory(ws.Path)
	if err != nil {
		return messages.Plan{}, err
	}
	profile, err := p.profile(ctx, ws.ID, o)
	if err != nil {
		return messages.Plan{}, err
	}
	plan := messages.Plan{
		Launch: o.Launch, Lease: o.Lease, Resumes: o.Resumes, Workspace: ws.ID, WorkspaceDir: dir,
		Profile: profile.ID, ProfileVersion: profile.Version, ProfileName: profile.Name, Seat: cmp.Or(o.Seat, profile.Name),
		Harness:    profile.Harness,
		Permission: cmp.Or(o.Permission, profile.Permission), Surface: cmp.Or(o.Surface, profile.Surface),
		Scope: profile.Scope, LeaseSeconds: cmp.Or(o.LeaseSeconds, profile.LeaseSeconds),
		WriteApproval: cmp.Or(o.WriteApproval, profile.WriteApproval, writeByProfile),
		Confine:       cmp.Or(o.Confine, profile.Confine, unit.Standard), Isolated: o.Isolated, Arguments: o.Arguments,
	}
	if o.Scope != nil {
		plan.Scope = o.Scope
	}
	if err := checkFlags(plan); err != nil {
		return messages.Plan{}, err
	}
	return p.identify(ctx, plan)
}

// profile picks the named one, else the harness's first, else the default.
func (p *Planner) profile(ctx context.Context, workspace string, o launches.Order) (messages.LaunchProfile, error) {
	all, err := p.Workspaces.Profiles(ctx, workspace)
	if err != nil {
		return messages.LaunchProfile{}, err
	}
	fits := func(l messages.LaunchProfile) bool {
		switch {
		case o.Profile != "":
			return l.ID == o.Profile || l.Name == o.Profile
		case o.Harness != "":
			return l.Harness == o.Harness
		}
		return l.Default
	}
	i := slices.IndexFunc(all, fits)
	if i < 0 {
		var ids []string
		for _, l := range all {
			ids = append(ids, l.ID)
		}
		return messages.LaunchProfile{}, problem.New("profile_not_found", "no launch profile fits (profile %q, harness %q)", o.Profile, o.Harness).
			WithHint("sophia agent catalog shows them.").WithValid(ids...)
	}
	if o.Harness != "" && all[i].Harness != o.Harness {
		return messages.LaunchProfile{}, problem.New("profile_harness_mismatch", "the profile %s is for %s, not for %s", all[i].ID, all[i].Harness, o.Harness)
	}
	return all[i], nil
}

func checkFlags(p messages.Plan) error {
	for _, f := range []struct {
		what, value string
		valid       []string
	}{
		{"permission", string(p.Permission), []string{string(messages.Observer), string(messages.Assistant), string(messages.Full)}},
		{"tool_surface", string(p.Surface), []string{string(messages.SurfaceCore), string(messages.SurfaceFull), string(messages.SurfaceCode)}},
		{"write_approval", p.WriteApproval, []string{writeByProfile, messages.WriteApprovalAlways}},
		{"confine", p.Confine, []string{unit.Standard, unit.Strict}},
	} {
		if !slices.Contains(f.valid, f.value) {
			return problem.New("invalid_"+f.what, "%q is no %s", f.value, f.what).WithValid(f.valid...)
		}
	}
	if p.LeaseSeconds < minLease || p.LeaseSeconds > maxLease {
		return problem.New("invalid_lease", "a lease of %d seconds is not between %d and %d", p.LeaseSeconds, minLease, maxLease)
	}
	return nil
}

func (p *Planner) identify(ctx context.Context, plan messages.Plan) (messages.Plan, error) {
	contract, err := p.Verifier.Contracts.Get(plan.Harness)
	if err != nil {
		return plan, err
	}
	path, tree, err := p.Installations.Program(ctx, plan.Harness)
	if err != nil {
		return plan, err
	}
	plan.HarnessTree, plan.HarnessVersion = tree, contract.Version
	plan.HarnessIdentity, err = p.ids.of(path, func() (messages.FileIdentity, error) {
		id, _, err := p.Verifier.Identify(ctx, plan.Harness, path)
		return id, err
	})
	if err != nil {
		return plan, err
	}
	for _, own := range []struct {
		name string
		into *messages.FileIdentity
	}{{"sophia-wrapper", &plan.Wrapper}, {"sophia-host", &plan.Host}, {"sophiad", &plan.Launcher}} {
		if *own.into, err = p.ids.own(ctx, p.Programs.Path(own.name)); err != nil {
			return plan, err
		}
	}
	plan.PeerDigest = plan.Wrapper.SHA256
	return plan, nil
}
