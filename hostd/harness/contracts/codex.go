package contracts

import (
	"github.com/pelletier/go-toml/v2"

	"sophia/messages/problem"
)

// codex is OpenAI Codex, witnessed at 0.147.0 (npm @openai/codex). It is a
// static-pie that runs helpers from its vendor tree by path, so the tree is
// adopted whole.
func codex(s Settings) Contract {
	return Contract{
		ID: "codex", Name: "OpenAI Codex",
		Version: "codex-cli 0.147.0", VersionArgs: []string{"--version"}, Linking: Static,
		Command: "codex", Entry: "bin/codex", WholeTree: true,
		Launchers: []string{ // npm: a sibling package, hoisted or not
			"../../codex-linux-*/vendor/*/bin/codex",
			"../node_modules/@openai/codex-linux-*/vendor/*/bin/codex",
			"../vendor/*/bin/codex",
		},
		HomeVar: "CODEX_HOME", HomeDir: ".codex",
		Credential: "auth.json", Form: codexForm,
		Sources: []string{
			"@/auth.json", "@/config.toml", "@/managed_config.toml", "@/requirements.toml", "@/hooks.json", "@/.env",
			"@/AGENTS.md", "@/AGENTS.override.md", "@/prompts", "@/skills", "@/rules", "@/plugins", "@/agents",
			"/etc/codex", "~/.agents/skills", "~/.gitconfig", "~/.config/git", "/etc/gitconfig",
		},
		DropEnv: []string{"CODEX_*", "OPENAI_*"},
		Compose: func(in Input) (Composition, error) { return composeCodex(in, s.Config) },
	}
}

func composeCodex(in Input, owners map[string]any) (Composition, error) {
	config := map[string]any{
		"check_for_update_on_startup": false,
		"cli_auth_credentials_store":  "file", // never the desktop's keyring
		"mcp_servers": map[string]any{"sophia": map[string]any{
			"command": in.Wrapper,
			"args":    in.WrapperArgs,
			// The approval of a write is Sophia's gate, in the tray; asking in
			// the TUI as well would ask twice.
			"default_tools_approval_mode": "approve",
			// A session without Sophia ends instead of running without tools.
			"required":            true,
			"startup_timeout_sec": 30,
			"tool_timeout_sec":    600, // a write waits for the owner
		}},
		"projects": map[string]any{in.Plan.WorkspaceDir.Path: map[string]any{"trust_level": "untrusted"}},
	}
	if in.Plan.Isolated {
		// An untrusted project's AGENTS.md and skills load all the same.
		config["project_doc_max_bytes"] = 0
		config["skills"] = map[string]any{"include_instructions": false}
	}
	merged, err := merge("codex", config, owners, "mcp_servers", "projects", "profiles", "project_doc_max_bytes", "project_doc_fallback_filenames", "skills")
	if err != nil {
		return Composition{}, err
	}
	text, err := toml.Marshal(merged)
	if err != nil {
		return Composition{}, problem.Wrap(err, "harness_settings_invalid", "[harness.codex.config] can't be written as TOML")
	}
	return Composition{
		Files: []File{{Path: "config.toml", Data: text}},
		Argv:  append([]string{in.Program}, in.Plan.Arguments...),
		Env:   map[string]string{},
	}, nil
}
