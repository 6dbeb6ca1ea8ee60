package workspaces

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/store"
	"sophia/store/tables"
)

// ScopeWorkspace in a stored profile's scope stands for the workspace that the
// profile is used in.
const ScopeWorkspace = "$workspace"

// presets are the profiles that a new store has.
func presets() []messages.LaunchProfile {
	return []messages.LaunchProfile{
		{ID: "codex-reviewer", Version: 1, Name: "Codex reviewer", Harness: "codex", Permission: messages.Assistant, Surface: messages.SurfaceCore,
			Scope: []string{ScopeWorkspace}, LeaseSeconds: 3600, WriteApproval: "profile", Confine: "standard", Default: true},
		{ID: "claude-implementer", Version: 1, Name: "Claude implementer", Harness: "claude-code", Permission: messages.Full, Surface: messages.SurfaceFull,
			Scope: []string{ScopeWorkspace}, LeaseSeconds: 7200, WriteApproval: "profile", Confine: "standard"},
	}
}

// Seed stores the presets in a store that has no profile, and a profile for
// each harness of the owner's own (config.toml) that has none: without one it
// could not be started.
func (s *Service) Seed(ctx context.Context, set contracts.Set) error {
	missing, err := s.missing(set)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = s.w.Write(ctx, cause("first launch profiles"), func(tx *store.Tx) error {
		for _, p := range missing {
			if err := tables.Profiles.Insert(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (s *Service) missing(set contracts.Set) (out []messages.LaunchProfile, err error) {
	r := s.db.View(store.Owner())
	defer r.Close()
	have, err := tables.Profiles.All(r, store.Query[messages.LaunchProfile]{})
	if err != nil {
		return nil, err
	}
	builtin := presets()
	if len(have) == 0 {
		out = builtin
	}
	for _, id := range set.IDs() {
		of := func(p messages.LaunchProfile) bool { return p.Harness == id || p.ID == id }
		if slices.ContainsFunc(builtin, of) || slices.ContainsFunc(have, of) {
			continue
		}
		c, err := set.Get(id)
		if err != nil {
			return nil, err
		}
		out = append(out, messages.LaunchProfile{ID: id, Version: 1, Name: c.Name, Harness: id, Permission: messages.Assistant, Surface: messages.SurfaceCore,
			Scope: []string{ScopeWorkspace}, LeaseSeconds: 3600, WriteApproval: "profile", Confine: "standard"})
	}
	return out, nil
}

// Profiles are the launch profiles of a workspace, the default first.
func (s *Service) Profiles(ctx context.Context, workspace string) ([]messages.LaunchProfile, error) {
	w, err := s.Get(ctx, workspace)
	if err != nil {
		return nil, err
	}
	r := s.db.View(store.Owner())
	defer r.Close()
	all, err := tables.Profiles.All(r, store.Query[messages.LaunchProfile]{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		scope := slices.Clone(all[i].Scope)
		for j := range scope {
			if scope[j] == ScopeWorkspace {
				scope[j] = w.ID
			}
		}
		all[i].Scope = scope
	}
	slices.SortFunc(all, func(a, b messages.LaunchProfile) int {
		return cmp.Or(first(b.Default)-first(a.Default), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
