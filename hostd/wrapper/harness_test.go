package wrapper_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/envelope"
	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
)

// codexConfig is what a managed overlay says, with the model on loopback.
const codexConfig = `
model = "mock-model"
model_provider = "mock"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = "%s/v1"
wire_api = "responses"
supports_websockets = false

[mcp_servers.sophia]
command = %q
args = ["--launch", "lp-1", "--socket", %q]
default_tools_approval_mode = "approve"
required = true
startup_timeout_sec = 60

[projects.%q]
trust_level = "untrusted"
`

// The real Claude Code, likewise.
func TestWrapper_ClaudeCodeCallsAToolThroughIt(t *testing.T) {
	claude := harnesses.ClaudeCode(t)
	d := startDaemon(t)
	d.launch("lp-1")
	model := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "All oriented."})
	home := harnesses.Scratch(t)
	config, work := filepath.Join(home, "claude"), filepath.Join(home, "work")
	for _, sub := range []string{config, work} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mcp := filepath.Join(config, "mcp.json")
	for path, text := range map[string]string{
		filepath.Join(config, ".claude.json"): fmt.Sprintf(`{"hasCompletedOnboarding":true,"projects":{%q:{"hasTrustDialogAccepted":true}}}`, work),
		mcp: fmt.Sprintf(`{"mcpServers":{"sophia":{"type":"stdio","command":%q,"args":["--launch","lp-1","--socket",%q]}}}`,
			d.wrapper, filepath.Join(d.launchDir("lp-1"), envelope.SocketName)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.watchCalls(home)

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, claude, "-p", "Please orient yourself.", "--setting-sources", "user",
		"--mcp-config", mcp, "--strict-mcp-config", "--allowedTools", "mcp__sophia")
	cmd.Dir = work
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "CLAUDE_CONFIG_DIR=" + config, "TMPDIR=" + home,
		"ANTHROPIC_BASE_URL=" + model.URL, "ANTHROPIC_API_KEY=sk-ant-fake", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("claude: %v\n%s", err, out)
	}
	got, err := model.WaitToolOutput(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(got.Text, `{"oriented":"sophia.orient"}`) || !strings.Contains(string(out), "All oriented.") || d.calls.Load() != 1 {
		t.Errorf("the model read %q in %d calls; claude says:\n%s", got.Text, d.calls.Load(), out)
	}
}

// The real Codex, its only MCP server the real wrapper, asks the model, which
// wants sophia.orient; the result reaches the model. While the call is under
// way the bearer is in no argv, environment or file.
func TestWrapper_CodexCallsAToolThroughIt(t *testing.T) {
	codex := harnesses.Codex(t)
	d := startDaemon(t)
	d.launch("lp-1")
	model := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "All oriented."})
	home := harnesses.Scratch(t) // Codex refuses temp folders
	for _, sub := range []string{"codex", "work"} {
		if err := os.Mkdir(filepath.Join(home, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(home, "work")
	config := fmt.Sprintf(codexConfig, model.URL, d.wrapper, filepath.Join(d.launchDir("lp-1"), envelope.SocketName), work)
	if err := os.WriteFile(filepath.Join(home, "codex", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.watchCalls(home)

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, codex, "exec", "--skip-git-repo-check", "-C", work, "Please orient yourself.")
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "CODEX_HOME=" + filepath.Join(home, "codex")}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("codex: %v\n%s", err, out.String())
	}
	got, err := model.WaitToolOutput(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(got.Text, `{"oriented":"sophia.orient"}`) {
		t.Errorf("the model read %q", got.Text)
	}
	if !strings.Contains(out.String(), "All oriented.") {
		t.Errorf("codex says:\n%s", out.String())
	}
	if d.calls.Load() != 1 {
		t.Errorf("%d tool calls reached the endpoint", d.calls.Load())
	}
}
