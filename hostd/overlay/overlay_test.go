package overlay_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sophia/hostd/harness/contracts"
	"sophia/hostd/overlay"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/harnesses"
)

// bench is a scratch home with a launch folder to build in.
type bench struct {
	home, project, launch string
	builder               overlay.Builder
}

func newBench(t *testing.T, settings map[string]contracts.Settings) bench {
	t.Helper()
	dir := harnesses.Scratch(t)
	b := bench{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "home", "proj"), launch: filepath.Join(dir, "lp-9c41d7")}
	fatal(t, os.MkdirAll(b.project, 0o700))
	set, err := contracts.New(settings)
	fatal(t, err)
	b.builder = overlay.Builder{Contracts: set}
	return b
}

func (b bench) put(t *testing.T, path, text string) {
	t.Helper()
	full := filepath.Join(b.home, path)
	fatal(t, os.MkdirAll(filepath.Dir(full), 0o700))
	fatal(t, os.WriteFile(full, []byte(text), 0o600))
}

func (b bench) request(harness string) overlay.Request {
	return overlay.Request{
		Plan: messages.Plan{Launch: "lp-9c41d7", Harness: harness, Isolated: true,
			WorkspaceDir: messages.DirIdentity{Path: b.project}, HarnessIdentity: messages.FileIdentity{Path: "/adopted/bin/" + harness}, Arguments: []string{"hello"}},
		LaunchDir: b.launch, WrapperPath: "/usr/lib/sophia/sophia-wrapper", EnvelopeSocket: b.launch + "/envelope.sock", RealHome: b.home,
	}
}

func (b bench) build(t *testing.T, r overlay.Request) overlay.Built {
	t.Helper()
	built, err := b.builder.Build(t.Context(), r)
	fatal(t, err)
	return built
}

func TestOverlay_IsPrivateAndHasExactlyOneCopiedFile(t *testing.T) {
	for harness, c := range map[string]struct{ dir, credential, text string }{
		"codex":       {".codex", "auth.json", `{"OPENAI_API_KEY":"sk-real"}`},
		"claude-code": {".claude", ".credentials.json", `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}`},
	} {
		t.Run(harness, func(t *testing.T) {
			b := newBench(t, nil)
			secretly := "ambient-" + harness
			for _, other := range []string{"config.toml", "AGENTS.md", "settings.json", "CLAUDE.md", "history.jsonl", "skills/s/SKILL.md", ".env"} {
				b.put(t, c.dir+"/"+other, secretly)
			}
			b.put(t, c.dir+"/"+c.credential, c.text)
			b.put(t, ".claude.json", `{"mcpServers":{"x":{"command":"`+secretly+`"}}}`)
			built := b.build(t, b.request(harness))
			if built.Overlay != b.launch+"/overlay" {
				t.Errorf("at %s", built.Overlay)
			}
			copied := 0
			fatal(t, filepath.WalkDir(built.Overlay, func(p string, d fs.DirEntry, err error) error {
				fatal(t, err)
				info, err := d.Info()
				fatal(t, err)
				if want := map[bool]fs.FileMode{true: 0o700 | fs.ModeDir, false: 0o600}[d.IsDir()]; info.Mode() != want {
					t.Errorf("%s has mode %v", p, info.Mode())
				}
				if d.IsDir() {
					return nil
				}
				text, err := os.ReadFile(p)
				fatal(t, err)
				if strings.Contains(string(text), secretly) {
					t.Errorf("%s was copied from the real home", p)
				}
				if string(text) == c.text {
					copied++
				}
				return nil
			}))
			if copied != 1 {
				t.Errorf("the credential is there %d times", copied)
			}
			if built.Credential == nil || built.Credential.Real != filepath.Join(b.home, c.dir, c.credential) || built.Credential.SHA256 == "" {
				t.Errorf("note %+v", built.Credential)
			}
			noted, err := overlay.Credential(b.launch)
			if err != nil || *noted != *built.Credential {
				t.Errorf("the note on disk: %+v %v", noted, err)
			}
		})
	}
}

func TestOverlay_EnvironmentIsScrubbed(t *testing.T) {
	b := newBench(t, map[string]contracts.Settings{"codex": {Environment: map[string]string{"MOCK_KEY": "k"}}})
	r := b.request("codex")
	dropped := []string{
		"LD_PRELOAD=/x.so", "LD_LIBRARY_PATH=/x", "LD_AUDIT=/x", "GLIBC_TUNABLES=x", "GCONV_PATH=/x", "BASH_ENV=/x",
		"SOPHIA_BEARER=t", "SOPHIA_HOME=/x", "MY_SOPHIA_TOKEN=t", "sophia_token=t", "HIDDEN=sophia_abcdefgh",
		"CLAUDECODE=1", "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDE_CODE_SESSION_ID=x", "CODEX_HOME=relative", "CODEX_SANDBOX=seatbelt", "OPENAI_API_KEY=sk-ambient",
		"NOTIFY_SOCKET=/x", "LISTEN_FDS=3",
	}
	kept := []string{"PATH=/bin", "LANG=de_DE.UTF-8", "LC_TIME=C", "HTTPS_PROXY=http://p"}
	onlyShared := []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=/x", "SSH_AUTH_SOCK=/x", "EDITOR=vi", "GITHUB_TOKEN=x"}
	r.Env = slices.Concat(dropped, kept, onlyShared, []string{"no equals sign", "=x", "TERM=dumb"})
	for _, isolated := range []bool{true, false} {
		r.Plan.Isolated = isolated
		fatal(t, overlay.Remove(b.launch))
		built := b.build(t, r)
		has := func(e string) bool { k, v, _ := strings.Cut(e, "="); got, ok := built.Env[k]; return ok && got == v }
		for _, e := range dropped {
			if has(e) {
				t.Errorf("isolated %v: %s reached the harness", isolated, e)
			}
		}
		for _, e := range kept {
			if !has(e) {
				t.Errorf("isolated %v: %s is missing", isolated, e)
			}
		}
		for _, e := range onlyShared {
			if has(e) == isolated {
				t.Errorf("isolated %v: %s reached: %v", isolated, e, has(e))
			}
		}
		home := map[bool]string{true: built.Overlay + "/home", false: b.home}[isolated]
		for _, e := range []string{"HOME=" + home, "TMPDIR=" + built.Overlay + "/temp", "CODEX_HOME=" + built.Overlay, "SOPHIA_LAUNCH=lp-9c41d7", "TERM=xterm-256color", "MOCK_KEY=k"} {
			if !has(e) {
				t.Errorf("isolated %v: want %s, have %v", isolated, e, built.Env)
			}
		}
	}
}

func TestOverlay_RefusesToBeBuiltTwice(t *testing.T) {
	b := newBench(t, nil)
	b.build(t, b.request("codex"))
	_, err := b.builder.Build(t.Context(), b.request("codex"))
	if problem.CodeOf(err) != "overlay_exists" {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.launch + "/overlay/config.toml"); err != nil {
		t.Error("the refusal took the first one away: ", err)
	}
}

func TestOverlay_RefusesBadPlaces(t *testing.T) {
	b := newBench(t, nil)
	r := b.request("codex")
	r.LaunchDir = filepath.Join(t.TempDir(), "lp-9c41d7")
	if _, err := b.builder.Build(t.Context(), r); problem.CodeOf(err) != "overlay_under_temp" {
		t.Error(err)
	}
	r.LaunchDir = filepath.Dir(b.launch) + "/other"
	if _, err := b.builder.Build(t.Context(), r); problem.CodeOf(err) != "overlay_not_private" {
		t.Error(err)
	}
	if err := overlay.Remove(filepath.Dir(b.launch) + "/other"); problem.CodeOf(err) != "overlay_not_private" {
		t.Error("removes what is not a launch: ", err)
	}
	fatal(t, os.Mkdir(b.launch, 0o750))
	if _, err := b.builder.Build(t.Context(), b.request("codex")); problem.CodeOf(err) != "folder_not_private" {
		t.Error(err)
	}
	fatal(t, os.Remove(b.launch))
	elsewhere := filepath.Join(filepath.Dir(b.launch), "elsewhere")
	fatal(t, os.Mkdir(elsewhere, 0o700))
	fatal(t, os.Symlink(elsewhere, b.launch))
	if _, err := b.builder.Build(t.Context(), b.request("codex")); err == nil {
		t.Error("built through a link")
	}
	if left, _ := os.ReadDir(elsewhere); len(left) != 0 {
		t.Error("something was made through a link")
	}
}

func TestOverlay_AFailedBuildLeavesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.put(t, ".codex/auth.json/not-a-file", "x")
	_, err := b.builder.Build(t.Context(), b.request("codex"))
	if problem.CodeOf(err) != "credential_unreadable" {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(b.launch); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestOverlay_OwnersSettingsCanNotWidenIt(t *testing.T) {
	for _, c := range []struct {
		harness string
		config  map[string]any
	}{
		{"codex", map[string]any{"mcp_servers": map[string]any{"evil": map[string]any{"command": "x"}}}},
		{"codex", map[string]any{"projects": map[string]any{"/": map[string]any{"trust_level": "trusted"}}}},
		{"codex", map[string]any{"project_doc_max_bytes": 9}},
		{"codex", map[string]any{"cli_auth_credentials_store": "keyring"}},
		{"claude-code", map[string]any{"permissions": map[string]any{"allow": []any{"Bash(*)"}}}},
		{"claude-code", map[string]any{"enableAllProjectMcpServers": true}},
	} {
		b := newBench(t, map[string]contracts.Settings{c.harness: {Config: c.config}})
		if _, err := b.builder.Build(t.Context(), b.request(c.harness)); problem.CodeOf(err) != "harness_setting_reserved" {
			t.Errorf("%v: %v", c.config, err)
		}
	}
	b := newBench(t, map[string]contracts.Settings{"codex": {Config: map[string]any{"model": "m", "model_provider": "mock",
		"model_providers": map[string]any{"mock": map[string]any{"base_url": "http://127.0.0.1:1/v1"}}}}})
	built := b.build(t, b.request("codex"))
	text, err := os.ReadFile(built.Overlay + "/config.toml")
	fatal(t, err)
	for _, want := range []string{"[model_providers.mock]", "base_url", "[mcp_servers.sophia]", "untrusted", "project_doc_max_bytes = 0"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("config.toml has no %s:\n%s", want, text)
		}
	}
}

func TestOverlay_ClaudeRestatesTwoDecisionsOnly(t *testing.T) {
	b := newBench(t, nil)
	state := map[string]any{"hasCompletedOnboarding": true, "theme": "dark", "mcpServers": map[string]any{"x": 1},
		"projects": map[string]any{b.project: map[string]any{"hasTrustDialogAccepted": true, "allowedTools": []string{"Bash"}}, "/other": map[string]any{"hasTrustDialogAccepted": true}}}
	text, err := json.Marshal(state)
	fatal(t, err)
	b.put(t, ".claude.json", string(text))
	built := b.build(t, b.request("claude-code"))
	got, err := os.ReadFile(built.Overlay + "/.claude.json")
	fatal(t, err)
	var have map[string]any
	fatal(t, json.Unmarshal(got, &have))
	want := map[string]any{"hasCompletedOnboarding": true, "projects": map[string]any{b.project: map[string]any{"hasTrustDialogAccepted": true}}}
	a, _ := json.Marshal(have)
	w, _ := json.Marshal(want)
	if string(a) != string(w) {
		t.Errorf("restated %s, want %s", a, w)
	}
	wantArgs := []string{"/adopted/bin/claude-code", "--setting-sources", "user", "--mcp-config", built.Overlay + "/mcp.json", "--strict-mcp-config", "hello"}
	if !slices.Equal(built.Argv, wantArgs) {
		t.Errorf("argv %q", built.Argv)
	}
	// Nothing decided, nothing restated.
	fatal(t, overlay.Remove(b.launch))
	b.put(t, ".claude.json", `{"hasCompletedOnboarding":false}`)
	built = b.build(t, b.request("claude-code"))
	if got, _ := os.ReadFile(built.Overlay + "/.claude.json"); strings.TrimSpace(string(got)) != "{}" {
		t.Errorf("restated %s", got)
	}
}

func TestOverlay_GenericHarness(t *testing.T) {
	b := newBench(t, map[string]contracts.Settings{"mycli": {Version: "mycli 1", HomeVar: "MYCLI_HOME", HomeDir: ".mycli", Credential: "key",
		Arguments: []string{"--mcp", "{overlay}/mcp.json"}, Files: map[string]string{"sub/conf": "ws={workspace}"}}})
	b.put(t, ".mycli/key", "k")
	built := b.build(t, b.request("mycli"))
	if !slices.Equal(built.Argv, []string{"/adopted/bin/mycli", "--mcp", built.Overlay + "/mcp.json", "hello"}) || built.Env["MYCLI_HOME"] != built.Overlay {
		t.Errorf("argv %q env %v", built.Argv, built.Env)
	}
	for f, want := range map[string]string{"sub/conf": "ws=" + b.project, "key": "k"} {
		if got, err := os.ReadFile(filepath.Join(built.Overlay, f)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", f, got, err)
		}
	}
	if sources, err := b.builder.Sources("mycli", b.home, nil); err != nil || !slices.Contains(sources, b.home+"/.mycli/key") {
		t.Errorf("sources %v, %v", sources, err)
	}
}

func TestOverlay_RemoveTakesTheCredentialThenTheFolder(t *testing.T) {
	b := newBench(t, nil)
	fatal(t, os.MkdirAll(b.home+"/.codex", 0o700))
	fatal(t, os.WriteFile(b.home+"/.codex/auth.json", []byte("{}"), 0o600))
	built := b.build(t, b.request("codex"))
	if _, err := os.Stat(built.Overlay + "/auth.json"); err != nil {
		t.Fatal(err)
	}
	fatal(t, os.Chmod(built.Overlay, 0o755)) // an agent may
	fatal(t, overlay.RemoveCredential(b.launch, "auth.json"))
	fatal(t, overlay.RemoveCredential(b.launch, "auth.json"))
	if _, err := os.Stat(built.Overlay + "/auth.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the credential: %v", err)
	}
	if _, err := os.Stat(built.Overlay + "/config.toml"); err != nil {
		t.Errorf("the rest of the overlay: %v", err)
	}
	// What the agent made lead elsewhere is not followed.
	fatal(t, os.Rename(built.Overlay, b.launch+"/moved"))
	fatal(t, os.Symlink(b.home+"/.codex", built.Overlay))
	fatal(t, overlay.RemoveCredential(b.launch, "auth.json"))
	if _, err := os.Stat(b.home + "/.codex/auth.json"); err != nil {
		t.Errorf("the owner's own: %v", err)
	}
	fatal(t, overlay.Remove(b.launch))
	fatal(t, overlay.Remove(b.launch))
	if _, err := os.Stat(b.launch); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
