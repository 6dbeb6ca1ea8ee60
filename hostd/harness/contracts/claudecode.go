package contracts

import (
	"encoding/json"

	"sophia/messages/problem"
)

// claudeCode is Anthropic Claude Code, witnessed at 2.1.222 (npm
// @anthropic-ai/claude-code). It needs the system's loader; the program is one
// file.
func claudeCode(s Settings) Contract {
	return Contract{
		ID: "claude-code", Name: "Claude Code",
		Version: "2.1.222 (Claude Code)", VersionArgs: []string{"--version"}, Linking: SystemLoader,
		Command: "claude", Entry: "claude",
		Launchers: []string{
			"../../claude-code-linux-*/claude",
			"../node_modules/@anthropic-ai/claude-code-linux-*/claude",
		},
		HomeVar: "CLAUDE_CONFIG_DIR", HomeDir: ".claude",
		Credential: ".credentials.json", Form: claudeForm,
		State: "~/.claude.json",
		Sources: []string{
			"~/.claude.json", "@/.claude.json", "@/.credentials.json", "@/settings.json", "@/settings.local.json", "@/CLAUDE.md",
			"@/keybindings.json", "@/agents", "@/commands", "@/skills", "@/plugins", "@/output-styles", "@/rules", "@/hooks",
			"/etc/claude-code", "~/.gitconfig", "~/.config/git", "/etc/gitconfig",
		},
		// BUN_* and NODE_OPTIONS are loader controls of the runtime inside.
		DropEnv: []string{"CLAUDE*", "ANTHROPIC_*", "BUN_*", "NODE_OPTIONS", "DISABLE_AUTOUPDATER", "MCP_*"},
		Compose: func(in Input) (Composition, error) { return composeClaude(in, s.Config) },
	}
}

func composeClaude(in Input, owners map[string]any) (Composition, error) {
	settings, err := merge("claude-code", map[string]any{
		// Sophia's own gate asks the owner; asking in the TUI too would ask twice.
		"permissions": map[string]any{"allow": []any{"mcp__sophia"}},
	}, owners, "mcpServers", "enabledMcpjsonServers", "enableAllProjectMcpServers", "permissions.allow")
	if err != nil {
		return Composition{}, err
	}
	servers := map[string]any{"mcpServers": map[string]any{"sophia": map[string]any{
		"type": "stdio", "command": in.Wrapper, "args": in.WrapperArgs,
	}}}
	out := Composition{Env: map[string]string{
		"DISABLE_AUTOUPDATER": "1",
		"CLAUDE_CODE_TMPDIR":  in.Temp,
		"MCP_TOOL_TIMEOUT":    "600000", // milliseconds: a write waits for the owner
	}}
	if in.Plan.Isolated {
		out.Env["CLAUDE_CODE_DISABLE_CLAUDE_MDS"] = "1" // a project's CLAUDE.md
	}
	for _, f := range []struct {
		path  string
		value any
	}{{"settings.json", settings}, {"mcp.json", servers}, {".claude.json", restate(in.State, in.Plan.WorkspaceDir.Path)}} {
		text, err := json.MarshalIndent(f.value, "", "  ")
		if err != nil {
			return Composition{}, problem.Wrap(err, "harness_settings_invalid", "[harness.claude-code.config] can't be written as JSON")
		}
		out.Files = append(out.Files, File{Path: f.path, Data: append(text, '\n')})
	}
	out.Argv = append([]string{in.Program,
		"--setting-sources", "user", "--mcp-config", in.Overlay + "/mcp.json", "--strict-mcp-config"}, in.Plan.Arguments...)
	return out, nil
}

// restate repeats the two decisions that the owner has made already, and
// nothing else of the state file: that would bring ambient MCP servers,
// permissions and project state along.
func restate(state []byte, workspace string) map[string]any {
	var real struct {
		Onboarded bool `json:"hasCompletedOnboarding"`
		Projects  map[string]struct {
			Trusted bool `json:"hasTrustDialogAccepted"`
		} `json:"projects"`
	}
	// A state file that can't be read restates nothing: the harness asks.
	_ = json.Unmarshal(state, &real)
	out := map[string]any{}
	if real.Onboarded {
		out["hasCompletedOnboarding"] = true
	}
	if real.Projects[workspace].Trusted {
		out["projects"] = map[string]any{workspace: map[string]any{"hasTrustDialogAccepted": true}}
	}
	return out
}
