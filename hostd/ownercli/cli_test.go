package ownercli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownercli"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// script is a daemon whose launches go through the given states, one at each
// wait.
type script struct {
	mu     sync.Mutex
	ask    ownerapi.StartRequest
	where  string // the workspace that was asked for
	lease  messages.Lease
	states []messages.Lease
	tokens int
}

func (s *script) Propose(_ context.Context, workspace string, ask ownerapi.StartRequest) (messages.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask, s.where = ask, workspace
	return s.lease, nil
}
func (s *script) List(context.Context) ([]messages.Lease, error) {
	ended := s.lease
	ended.Launch, ended.State = "lp-000001", messages.LeaseEnded
	return []messages.Lease{s.lease, ended}, nil
}
func (s *script) Get(context.Context, string) (messages.Lease, error) { return s.lease, nil }
func (s *script) Wait(context.Context, string, messages.LeaseState) (messages.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.states[0]
	s.states = s.states[1:]
	s.lease.State, s.lease.Code, s.lease.Reason = next.State, next.Code, next.Reason
	return s.lease, nil
}
func (s *script) Attach(_ context.Context, launch string) (string, *secret.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens++; s.tokens > 1 {
		return "", nil, problem.New("token_consumed", "the attach token of %s was given out", launch).WithHint("Re-attaching is not possible for this launch.")
	}
	token, err := secret.New(bytes.Repeat([]byte{7}, ownerapi.TokenSize))
	return "/run/terminal.sock", token, err
}
func (s *script) Stop(_ context.Context, _ string) (messages.Lease, error) { return s.lease, nil }

type places struct{ path string }

func (p places) Add(_ context.Context, ask ownerapi.AddWorkspace) (ownerapi.AddedWorkspace, error) {
	return ownerapi.AddedWorkspace{Workspace: messages.Workspace{ID: "ws-1f2ce8", Name: "Ouroboros-App", Path: ask.Path}, New: true, Documents: 3, Modules: 2, Symbols: 9}, nil
}
func (p places) List(context.Context) ([]messages.Workspace, error) {
	return []messages.Workspace{
		{ID: "ws-000000", Name: "Outer", Path: filepath.Dir(p.path)},
		{ID: "ws-1f2ce8", Name: "Ouroboros-App", Path: p.path},
	}, nil
}
func (p places) Profiles(_ context.Context, ws string) ([]messages.LaunchProfile, error) {
	if ws != "ws-1f2ce8" {
		return nil, problem.New("workspace_not_found", "no %s", ws)
	}
	return []messages.LaunchProfile{
		{Name: "Codex reviewer", Harness: "codex", Permission: "assistant", Surface: "core", LeaseSeconds: 3600, Default: true},
		{Name: "Claude implementer", Harness: "claude-code", Permission: "full", Surface: "full", LeaseSeconds: 7200},
	}, nil
}

type waiting struct{}

func (waiting) List(context.Context) ([]messages.ApprovalRequest, error) {
	return []messages.ApprovalRequest{{ID: "ap-1", Requester: "Claude", Title: "Remember \x1b[31ma fact", Requested: time.Now(), Expires: time.Now().Add(time.Hour)}}, nil
}
func (waiting) Decide(context.Context, string, string, string, string, string) error { return nil }

// patientMint mints once somebody has looked what is waited for.
type patientMint struct{ looked chan struct{} }

func (m patientMint) Mint(ctx context.Context, ask ownerapi.MintRequest) (messages.ConnectionRow, *secret.Secret, error) {
	select {
	case <-m.looked:
	case <-ctx.Done():
		return messages.ConnectionRow{}, nil, ctx.Err()
	}
	bearer, err := secret.Random("sophia_", 32)
	return messages.ConnectionRow{Authority: messages.Authority{Connection: "conn-0a1b2c", Name: ask.Name, Profile: ask.Profile, Scope: ask.Scope}}, bearer, err
}
func (patientMint) List(context.Context) ([]messages.ConnectionRow, error) { return nil, nil }
func (patientMint) Revoke(context.Context, string) (messages.ConnectionRow, error) {
	return messages.ConnectionRow{}, nil
}

// Who mints what takes the owner's presence is told what it waits for, and how
// to open a tray when none is.
func TestConnectionMint_SaysWhatItWaitsFor(t *testing.T) {
	for trays, want := range map[int]string{
		0: "Waiting for your approval in the Sophia tray.\nNo tray is open. In another terminal:  ",
		1: "Waiting for your approval in the Sophia tray.\n",
	} {
		m := patientMint{make(chan struct{})}
		s := newShellWith(t, func(all *ownerapi.Services) {
			all.Connections = m
			all.Status = func(context.Context) (ownerapi.Status, error) {
				close(m.looked)
				return ownerapi.Status{Waiting: 1, Trays: trays}, nil
			}
		})
		code, out, errout := s.run("connection mint Codex --profile full")
		if code != 0 || !strings.Contains(out, "conn-0a1b2c") {
			t.Errorf("exit %d\n%s", code, out)
		}
		rest, ok := strings.CutPrefix(errout, want)
		if !ok || trays == 0 != strings.HasSuffix(rest, "sophia-tray --terminal\n") {
			t.Errorf("with %d trays it says\n%s", trays, errout)
		}
	}
}

// shell runs sophia commands against a scripted daemon.
type shell struct {
	*script
	t        *testing.T
	home     string
	dir      string
	tty      bool
	columns  int
	version  string
	now      func() time.Time
	attached func(token []byte) (over bool, err error)
}

func newShell(t *testing.T, states ...messages.Lease) *shell {
	t.Helper()
	return newShellWith(t, func(*ownerapi.Services) {}, states...)
}

// newShellWith lets the test fill in more of the scripted daemon.
func newShellWith(t *testing.T, fill func(*ownerapi.Services), states ...messages.Lease) *shell {
	t.Helper()
	home, err := os.MkdirTemp("", "oc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	s := &shell{t: t, home: home, dir: filepath.Join(home, "outer", "app", "sub")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.script = &script{states: states, lease: messages.Lease{
		Launch: "lp-9c41d7", State: messages.LeasePending,
		Plan: messages.Plan{ProfileName: "Codex reviewer", Seat: "Reviewer_1"},
		Unit: messages.UnitRef{Name: "sophia-launch-lp-9c41d7.service"},
	}}
	dirs, err := paths.Resolve(s.getenv)
	if err != nil {
		t.Fatal(err)
	}
	if err := dirs.Make(); err != nil {
		t.Fatal(err)
	}
	key, err := ownerkey.LoadOrCreate(dirs.OwnerKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(key.Close)
	services := ownerapi.Services{Launches: s.script, Workspaces: places{filepath.Join(home, "outer", "app")}, Approvals: waiting{}}
	fill(&services)
	server, err := ownerapi.New(ownerapi.Config{Owner: key.Public().(ed25519.PublicKey), Services: services, Bearers: dirs.Bearers()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ownerapi.Listen(dirs.OwnerSocket())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Shutdown(context.Background())
		<-done
	})
	return s
}

func (s *shell) getenv(name string) string { return map[string]string{"SOPHIA_HOME": s.home}[name] }

// run runs one command line.
func (s *shell) run(line string) (code int, out, errout string) {
	s.t.Helper()
	return s.runArgs(strings.Fields(line)...)
}

func (s *shell) runArgs(args ...string) (code int, out, errout string) {
	s.t.Helper()
	var o, e bytes.Buffer
	a := &ownercli.App{
		In: strings.NewReader(""), Out: &o, Err: &e, OutTTY: s.tty, InTTY: s.tty, Getenv: s.getenv, Dir: s.dir, Programs: s.home,
		Columns: s.columns, Now: s.now, Version: s.version,
		Attach: func(_ context.Context, _ *ownercli.App, _, socket string, token *secret.Secret) (bool, error) {
			var copied []byte
			token.Use(func(b []byte) error { copied = append(copied, b...); return nil })
			return s.attached(copied)
		},
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	code = ownercli.Run(ctx, a, args)
	return code, o.String(), e.String()
}

func (s *shell) want(line string, code int, out, errout string) {
	s.t.Helper()
	gotCode, gotOut, gotErr := s.run(line)
	if gotCode != code || gotOut != out || gotErr != errout {
		s.t.Errorf("$ sophia %s\nexit %d, want %d\n--- output\n%s--- want\n%s--- errors\n%s--- want\n%s", line, gotCode, code, gotOut, out, gotErr, errout)
	}
}

func TestAgentCatalog_IsTheSpecsTranscript(t *testing.T) {
	s := newShell(t)
	s.want("agent catalog", 0, `Ouroboros-App (ws-1f2ce8)
* Codex reviewer [codex] assistant/core lease 3600s
  Claude implementer [claude-code] full/full lease 7200s
`, "")
}

func TestAgentStart_IsTheSpecsTranscript(t *testing.T) {
	s := newShell(t, messages.Lease{State: messages.LeaseApproved}, messages.Lease{State: messages.LeaseStarting}, messages.Lease{State: messages.LeaseRedeeming})
	s.tty = true
	s.attached = func(token []byte) (bool, error) {
		if !bytes.Equal(token, bytes.Repeat([]byte{7}, ownerapi.TokenSize)) {
			t.Errorf("token %x", token)
		}
		return false, nil
	}
	s.want("agent start --harness codex --seat Reviewer_1", 0, `Launch lp-9c41d7 is pending_trusted_presence.
Approve or deny Codex reviewer (Reviewer_1) in the Sophia tray.
Approved. Attaching this terminal to the managed agent…
`, "Detached. lp-9c41d7 keeps running; stop it with: sophia agent stop lp-9c41d7\n")
	if s.ask.Harness != "codex" || s.ask.Seat != "Reviewer_1" {
		t.Errorf("proposed: %+v", s.ask)
	}
	s.want("agent attach lp-9c41d7", 3, "", `sophia: the attach token of lp-9c41d7 was given out
  Re-attaching is not possible for this launch.
  (token_consumed)
`)
}

func TestAgentStart_EveryFlagIsInTheProposal(t *testing.T) {
	s := newShell(t, messages.Lease{State: messages.LeaseRunning})
	code, _, errs := s.run("agent start --profile p --harness codex --seat S --permission observer --tool-surface code --scope acme,globex --lease 90m --write-approval always --confine strict --isolated --no-attach -- --model x do-it")
	if code != 0 {
		t.Fatal(code, errs)
	}
	got, _ := json.Marshal(s.ask)
	want := `{"profile":"p","harness":"codex","seat":"S","permission":"observer","surface":"code","scope":["acme","globex"],"lease_seconds":5400,"write_approval":"always","confine":"strict","isolated":true,"arguments":["--model","x","do-it"]}`
	if string(got) != want {
		t.Errorf("proposed\n%s, want\n%s", got, want)
	}
}

func TestAgentStart_ResumeGoesToTheWorkspaceOfTheOldLaunch(t *testing.T) {
	s := newShell(t, messages.Lease{State: messages.LeaseRunning})
	s.lease.Plan.Workspace = "ws-0ddba1"
	code, _, errs := s.run("agent start --resume lp-000001 --seat S --no-attach")
	if code != 0 {
		t.Fatal(code, errs)
	}
	if s.ask.Resume != "lp-000001" || s.ask.Seat != "S" || s.where != "ws-0ddba1" {
		t.Errorf("proposed in %s: %+v", s.where, s.ask)
	}
}

func TestAgentShow_SaysWhatIsAlive(t *testing.T) {
	s := newShell(t)
	s.lease.State, s.lease.Reason = messages.LeaseUnquiet, "The owner stopped it."
	s.lease.History = []messages.LeaseStep{{State: messages.LeaseQuiescing}, {State: messages.LeaseUnquiet, Why: "pid 7 (sleep)"}}
	if _, out, errs := s.run("agent show lp-9c41d7"); !strings.Contains(out, "alive") || !strings.Contains(out, "pid 7 (sleep)") {
		t.Errorf("%s%s", out, errs)
	}
}

func TestAgentStart_EachEndHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		end  messages.Lease
		exit int
		code string
	}{
		{messages.Lease{State: messages.LeaseDenied, Reason: "not now"}, 3, "denied"},
		{messages.Lease{State: messages.LeaseExpired}, 5, "approval_timed_out"},
		{messages.Lease{State: messages.LeaseRefused, Code: "managed_harness_identity_changed", Reason: "the harness's sha256 differs"}, 3, "managed_harness_identity_changed"},
		{messages.Lease{State: messages.LeaseFailed, Code: "unit_start_failed"}, 1, "unit_start_failed"},
	} {
		s := newShell(t, c.end)
		exit, out, _ := s.run("agent start --json")
		var answer struct{ Error problem.Error }
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Errorf("%s: not one JSON value: %v\n%s", c.code, err, out)
		}
		if exit != c.exit || answer.Error.Code != c.code || answer.Error.Hint == "" && c.code != "denied" {
			t.Errorf("%+v: exit %d, %+v", c.end, exit, answer.Error)
		}
	}
}

func TestAgentStart_WithoutATerminalAsksNobody(t *testing.T) {
	s := newShell(t)
	code, _, errs := s.run("agent start")
	if code != 2 || !strings.Contains(errs, "--no-attach") || s.ask.Harness != "" || len(s.states) != 0 {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, _ := s.run("agent attach lp-9c41d7"); code != 2 || s.tokens != 0 {
		t.Errorf("exit %d, tokens used: %d", code, s.tokens)
	}
}

func TestAgentStart_WaitsForTheTerminalToBeThere(t *testing.T) {
	s := newShell(t, messages.Lease{State: messages.LeaseRedeeming})
	s.tty = true
	tries := 0
	s.attached = func([]byte) (bool, error) {
		if tries++; tries < 3 {
			return false, problem.New("terminal_unreachable", "not yet")
		}
		return true, nil
	}
	code, _, errs := s.run("agent start")
	if code != 0 || tries != 3 || s.tokens != 1 || errs != "lp-9c41d7 has ended.\n" {
		t.Errorf("exit %d after %d tries with %d tokens: %s", code, tries, s.tokens, errs)
	}
}

func TestAgentStop_SaysWhenSomethingIsAlive(t *testing.T) {
	s := newShell(t, messages.Lease{State: messages.LeaseStopping}, messages.Lease{State: messages.LeaseUnquiet, Reason: "The owner stopped it."})
	s.lease.History = []messages.LeaseStep{{State: messages.LeaseUnquiet, Why: "pid 7 (sleep)"}}
	code, _, errs := s.run("agent stop lp-9c41d7")
	if code != 3 || !strings.Contains(errs, "pid 7 (sleep)") {
		t.Errorf("%d %s", code, errs)
	}
	s = newShell(t, messages.Lease{State: messages.LeaseQuiescing}, messages.Lease{State: messages.LeaseEnded})
	s.want("agent stop lp-9c41d7", 0, "lp-9c41d7 is ended.\n", "")
}

func TestCLI_ListsForPeopleAndForScripts(t *testing.T) {
	s := newShell(t)
	code, out, _ := s.run("agent list")
	if code != 0 || !strings.HasPrefix(out, "lp-9c41d7\tCodex reviewer\tReviewer_1\tpending_trusted_presence\t") || strings.Count(out, "\n") != 1 {
		t.Errorf("%d\n%s", code, out)
	}
	s.tty = true
	_, out, _ = s.run("approval list")
	if !strings.Contains(out, "APPROVAL") || strings.Contains(out, "\x1b[31m") {
		t.Errorf("%q", out)
	}
	code, out, _ = s.run("agent list --all --json")
	var page ownerapi.Page[messages.Lease]
	if err := json.Unmarshal([]byte(out), &page); err != nil || code != 0 || page.Total != 2 || len(page.Items) != 2 {
		t.Errorf("%d %v\n%s", code, err, out)
	}
}

func TestCLI_UsageErrors(t *testing.T) {
	s := newShell(t)
	for line, text := range map[string]string{
		"agnet":                     "valid: agent",
		"agent":                     "needs a verb",
		"agent strat":               `no verb "strat"`,
		"agent stop":                "needs LAUNCH",
		"agent stop a b":            `takes no "b"`,
		"agent start --lease soon":  "invalid argument",
		"agent start x":             "come after --",
		"journal revert x":          "is no change's number",
		"connection mint":           "needs NAME",
		"status --colour":           "unknown flag",
		"tool call sophia.orient x": "neither a JSON object nor KEY=VALUE",
		"connect codex":             "add --yes",
		"tool call":                 "tool call needs TOOL",
		"workspace add a b":         `takes no "b"`,
		"journal list --limit 0":    "from 1 to 1000",
		"completion dash":           `no verb "dash"`,
		"help agnet":                `no command "agnet"`,
		"help agent strat":          `no command "agent strat"`,
		"agent stop a b c":          "See: sophia agent stop --help",
	} {
		code, out, errs := s.run(line)
		if code != 2 || !strings.Contains(errs, text) || !strings.Contains(errs, "(usage)") || out != "" {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errs)
		}
		code, out, errs = s.run(line + " --json")
		var answer struct{ Error problem.Error }
		if code != 2 || json.Unmarshal([]byte(out), &answer) != nil || answer.Error.Code != "usage" || errs != "" {
			t.Errorf("%s --json: exit %d\n%s%s", line, code, out, errs)
		}
	}
}

func TestCLI_VersionAndHelp(t *testing.T) {
	s := newShell(t)
	s.version = "1.2.3"
	s.want("--version", 0, "sophia 1.2.3\n", "")
	_, help, _ := s.run("agent stop --help")
	s.want("help agent stop", 0, help, "")
	if code, out, _ := s.run("help"); code != 0 || !strings.Contains(out, "Available Commands") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// What the daemon finds wrong with an argument is a usage error as well.
func TestCLI_WrongArgumentsAreUsageErrors(t *testing.T) {
	s := newShellWith(t, func(all *ownerapi.Services) { all.Connections = picky{} })
	if code, _, errs := s.run("connection mint x --profile root"); code != 2 || !strings.Contains(errs, "valid: observer, assistant, full") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// picky mints nothing.
type picky struct{ patientMint }

func (picky) Mint(context.Context, ownerapi.MintRequest) (messages.ConnectionRow, *secret.Secret, error) {
	return messages.ConnectionRow{}, nil, problem.New("invalid_profile", "%q is no profile", "root").WithValid("observer", "assistant", "full")
}

func TestCLI_NoDaemon(t *testing.T) {
	home := t.TempDir()
	var out, errs bytes.Buffer
	a := &ownercli.App{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: home, Programs: home,
		Getenv: func(name string) string { return map[string]string{"SOPHIA_HOME": home}[name] }}
	if code := ownercli.Run(t.Context(), a, []string{"status"}); code != 4 || !strings.Contains(errs.String(), "sophia up") {
		t.Errorf("%d %s", code, errs.String())
	}
	if entries, _ := os.ReadDir(home); len(entries) != 0 {
		t.Errorf("status made %v", entries)
	}
	errs.Reset()
	if code := ownercli.Run(t.Context(), a, []string{"down"}); code != 0 || out.String() != "Sophia was not running.\n" {
		t.Errorf("%d %s%s", code, out.String(), errs.String())
	}
}

func TestCLI_OtherPartsMissing(t *testing.T) {
	s := newShell(t)
	code, _, errs := s.run("status") // this scripted daemon has none
	if code != 1 || !strings.Contains(errs, "(not_available)") {
		t.Errorf("%d %s", code, errs)
	}
}
