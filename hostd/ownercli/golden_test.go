package ownercli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is when every golden command is run.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return noon.Add(-d) }

// desk is a daemon with something of everything, or with nothing of anything.
type desk struct{ empty bool }

func (d desk) fill(home string) func(*ownerapi.Services) {
	return func(s *ownerapi.Services) {
		s.Status, s.Connections, s.Journal, s.Tools, s.Harnesses = d.status, rows{d}, journal{d}, toolbox{}, shelf{d}
		s.Launches, s.Workspaces, s.Approvals = fleet{&script{}, d}, map[bool]ownerapi.Workspaces{true: nowhere{}, false: fixed{home}}[d.empty], asked{d}
	}
}

func (d desk) status(context.Context) (ownerapi.Status, error) {
	s := ownerapi.Status{
		PID: 4711, Started: before(3 * time.Hour), Version: "1.2.0", MCP: "http://127.0.0.1:8765/mcp", Portal: "http://127.0.0.1:8765/",
		Tree: []ownerapi.TreeNode{{Path: "sophiad/writer", State: "up"}, {Path: "sophiad/launches/reconciler", State: "down"}},
	}
	if !d.empty {
		s.Unit, s.Connections, s.Workspaces, s.Launches, s.Waiting, s.Mutations = "sophia-daemon.service", 2, 1, 1, 1, 42
		s.Tree = append(s.Tree, ownerapi.TreeNode{Path: "sophiad/isolates/broker", State: "up", Restarts: 2})
	}
	return s, nil
}

type rows struct{ desk }

func (r rows) Mint(context.Context, ownerapi.MintRequest) (messages.ConnectionRow, *secret.Secret, error) {
	return messages.ConnectionRow{}, nil, problem.New("not_available", "not here")
}
func (r rows) Revoke(context.Context, string) (messages.ConnectionRow, error) {
	return messages.ConnectionRow{}, problem.New("connection_not_found", "not here")
}
func (r rows) List(context.Context) ([]messages.ConnectionRow, error) {
	if r.empty {
		return nil, nil
	}
	gone, over := before(48*time.Hour), before(time.Minute)
	return []messages.ConnectionRow{
		{Authority: messages.Authority{Connection: "conn-0a1b2c3d", Name: "Claude Code", Profile: messages.Assistant, Surface: messages.SurfaceCore, Scope: []string{"*"}}, Created: before(90 * time.Second)},
		{Authority: messages.Authority{Connection: "conn-4e5f6a7b", Name: "漢字 \x1b[31mred", Profile: messages.Observer, Surface: messages.SurfaceFull, Scope: []string{"acme", "globex"}}, Created: before(time.Hour), Expires: &over},
		{Authority: messages.Authority{Connection: "conn-9", Name: "Reviewer_1", Profile: messages.Full, Surface: messages.SurfaceCode, Launch: "lp-9c41d7"}, Created: before(time.Hour)},
		{Authority: messages.Authority{Connection: "conn-8", Name: "old", Profile: messages.Full, Surface: messages.SurfaceCode}, Created: before(72 * time.Hour), Revoked: &gone},
	}, nil
}

type journal struct{ desk }

func (j journal) entries() []ownerapi.Mutation {
	if j.empty {
		return nil
	}
	return []ownerapi.Mutation{
		{Seq: 42, At: before(5 * time.Second), Actor: messages.Actor{Connection: "owner", Name: "owner"}, Table: "facts", Key: "fact-1", Before: json.RawMessage(`{"text":"nine"}`), After: json.RawMessage(`{"text":"eight"}`), Reverts: 41, Tool: "sophia.revert_mutation"},
		{Seq: 41, At: before(20 * time.Minute), Actor: messages.Actor{Connection: "conn-0a1b2c3d", Name: "Claude Code"}, Table: "facts", Key: "fact-1", Before: json.RawMessage(`{"text":"eight"}`), After: json.RawMessage(`{"text":"nine"}`), Reason: "the sign says so", Tool: "sophia.remember_fact", Reverted: 42},
		{Seq: 40, At: before(75 * time.Hour), Actor: messages.Actor{Connection: "system", Name: "sophiad"}, Table: "wiki_pages", Key: "harbour", Before: json.RawMessage(`null`), After: json.RawMessage(`{"title":"Harbour"}`)},
	}
}
func (j journal) List(context.Context, ownerapi.JournalQuery) (ownerapi.Page[ownerapi.Mutation], error) {
	page := ownerapi.Page[ownerapi.Mutation]{Items: j.entries()}
	if !j.empty {
		page.Total, page.Cursor = 42, "c0ffee"
	}
	return page, nil
}
func (j journal) Get(_ context.Context, seq uint64) (ownerapi.Mutation, error) {
	for _, m := range j.entries() {
		if m.Seq == seq {
			return m, nil
		}
	}
	return ownerapi.Mutation{}, problem.New("mutation_not_found", "there is no mutation %d", seq).WithHint("sophia journal list shows them.")
}
func (j journal) Revert(context.Context, uint64, string) (ownerapi.Mutation, error) {
	return ownerapi.Mutation{}, problem.New("approval_denied", "the owner said no")
}

type toolbox struct{}

func (toolbox) List(context.Context) ([]ownerapi.Tool, error) {
	return []ownerapi.Tool{
		{Name: "sophia.orient", Group: "orient", Summary: "Where things stand: start here, with a goal, and get what is new and what to do next"},
		{Name: "sophia.post_message", Group: "coordination", Summary: "Post to a channel", Writes: true},
		{Name: "sophia.remember_fact", Group: "mutate_knowledge", Summary: "Keep a fact", Writes: true, Elevated: true},
	}, nil
}
func (toolbox) Describe(context.Context, string) (ownerapi.Tool, error) {
	return ownerapi.Tool{Name: "sophia.orient", Group: "orient", Summary: "Where things stand", Description: "Start here.", Input: json.RawMessage(`{"type":"object"}`)}, nil
}
func (toolbox) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"items":[]}`), nil
}

type shelf struct{ desk }

func (s shelf) List(context.Context) ([]ownerapi.Harness, error) {
	claude := ownerapi.Harness{Harness: "claude-code", Title: "Claude Code", Version: "2.1.222 (Claude Code)"}
	codex := ownerapi.Harness{Harness: "codex", Title: "OpenAI Codex", Version: "codex-cli 0.147.0"}
	if !s.empty {
		codex.Adopted, codex.Tree, codex.Path = true, strings.Repeat("ab", 32), "/home/zoe/.local/share/sophia/harnesses/codex/abab/tree/bin/codex"
	}
	return []ownerapi.Harness{claude, codex}, nil
}
func (s shelf) Adopt(context.Context, ownerapi.AdoptRequest) (ownerapi.Harness, error) {
	return ownerapi.Harness{}, problem.New("harness_not_installed", "Codex was not found on PATH")
}

type fleet struct {
	*script
	desk
}

func (f fleet) List(context.Context) ([]messages.Lease, error) {
	if f.empty {
		return nil, nil
	}
	return []messages.Lease{f.running(), f.failed()}, nil
}
func (f fleet) Get(_ context.Context, launch string) (messages.Lease, error) {
	switch {
	case f.empty:
	case launch == "lp-9c41d7":
		return f.running(), nil
	case launch == "lp-000001":
		return f.failed(), nil
	}
	return messages.Lease{}, problem.New("launch_not_found", "there is no launch %s", launch).WithHint("sophia agent list shows them.")
}
func (f fleet) running() messages.Lease {
	ends := noon.Add(50 * time.Minute)
	return messages.Lease{
		ID: "ls-9c41d7", Launch: "lp-9c41d7", State: messages.LeaseRunning, Updated: before(10 * time.Minute), Expires: &ends, PlanDigest: strings.Repeat("cd", 32),
		Plan: messages.Plan{ProfileName: "Codex reviewer", Seat: "Reviewer_1", Harness: "codex", HarnessVersion: "codex-cli 0.147.0", Permission: messages.Assistant, Surface: messages.SurfaceCore,
			Scope: []string{"*"}, Confine: "standard", WorkspaceDir: messages.DirIdentity{Path: "/src/app"}, Arguments: []string{"--model", "x"}, WriteApproval: messages.WriteApprovalAlways},
		Unit: messages.UnitRef{Name: "sophia-launch-lp-9c41d7.service"}, Connection: "conn-9",
		History: []messages.LeaseStep{
			{State: messages.LeasePending, At: before(11 * time.Minute)}, {State: messages.LeaseApproved, At: before(10*time.Minute + 30*time.Second), Why: "approved by tray"},
			{State: messages.LeaseRunning, At: before(10*time.Minute + 28500*time.Millisecond)},
		},
	}
}
func (f fleet) failed() messages.Lease {
	l := f.running()
	l.ID, l.Launch, l.State, l.Updated, l.Code, l.Reason = "ls-000001", "lp-000001", messages.LeaseFailed, before(26*time.Hour), "managed_evidence_changed", "a config source was changed"
	l.Evidence = &messages.Evidence{Before: make([]messages.SourceState, 7), After: make([]messages.SourceState, 7), Changed: []string{"/home/zoe/.gitconfig"}, Credential: "rotated_written_back"}
	return l
}

type nowhere struct{ ownerapi.Workspaces }

func (nowhere) List(context.Context) ([]messages.Workspace, error) { return nil, nil }

type fixed struct{ home string }

func (f fixed) Add(_ context.Context, ask ownerapi.AddWorkspace) (ownerapi.AddedWorkspace, error) {
	return ownerapi.AddedWorkspace{}, problem.New("workspace_missing", "there is no folder")
}
func (f fixed) List(context.Context) ([]messages.Workspace, error) {
	return []messages.Workspace{{ID: "ws-1f2ce8", Name: "Ouroboros-App", Path: "/src/app", Created: before(30 * 24 * time.Hour)}}, nil
}
func (f fixed) Profiles(context.Context, string) ([]messages.LaunchProfile, error) {
	return []messages.LaunchProfile{{ID: "codex-reviewer", Name: "Codex reviewer", Harness: "codex", Permission: "assistant", Surface: "core", LeaseSeconds: 3600, Default: true}}, nil
}

type asked struct{ desk }

func (a asked) List(context.Context) ([]messages.ApprovalRequest, error) {
	if a.empty {
		return nil, nil
	}
	return []messages.ApprovalRequest{{ID: "ap-00c0de", Requester: "Claude Code", Title: "Remember a fact", Tool: "sophia.remember_fact",
		Arguments: json.RawMessage(`{"entity":"acme","value":"\u001b[2J4"}`), Preview: []messages.Change{{Table: "facts", Key: "fact-1", Before: json.RawMessage(`{"value":"3"}`), After: json.RawMessage(`{"value":"4"}`)}},
		Requested: before(12 * time.Second), Expires: noon.Add(288 * time.Second)}}, nil
}
func (a asked) Decide(context.Context, string, string, string, string, string) error { return nil }

// TestMain puts the whole package into one time zone before anything runs that
// could read it: the outputs show local times.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// What a person and what a script sees of each list, compared with files that
// are looked at when they change.
func TestGolden_OutputsOnAndOffATerminal(t *testing.T) {
	lines := []string{
		"status", "status --tree", "agent list", "agent list --all", "agent show lp-9c41d7", "agent show lp-000001", "agent show lp-none", "agent catalog --all", "agent catalog --workspace ws-none",
		"connection list", "connection list --all", "journal list", "journal show 41", "journal show 7", "journal revert 41", "workspace list", "approval list", "approval show ap-00c0de", "approval show ap-1", "harness list",
		"harness adopt codex", "tool list", "tool list --group none", "tool describe sophia.orient", "disconnect codex --yes", "disconnect conn-none --yes", "agent logs lp-000001",
	}
	for _, d := range []desk{{false}, {true}} {
		for _, tty := range []bool{true, false} {
			name := map[bool]string{true: "empty", false: "full"}[d.empty] + map[bool]string{true: "-terminal", false: "-pipe"}[tty] + ".txt"
			t.Run(name, func(t *testing.T) {
				s := newShellWith(t, d.fill(""))
				s.tty, s.columns, s.now = tty, 100, func() time.Time { return noon }
				var all bytes.Buffer
				for _, line := range lines {
					code, out, errs := s.run(line)
					fmt.Fprintf(&all, "$ sophia %s\n%s%s[%d]\n\n", line, out, errs, code)
				}
				got := strings.ReplaceAll(strings.ReplaceAll(all.String(), s.home, "HOME"), "\x1b", "␛")
				file := filepath.Join("testdata", "golden", name)
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil || got != string(want) {
					t.Errorf("%v: %s differs; look at it and run with -update\n%s", err, file, got)
				}
			})
		}
	}
}
