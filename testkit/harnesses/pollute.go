package harnesses

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Pollution is a home and a project filled with all that a harness might pick
// up by itself: hooks, MCP servers, skills, instructions, settings. What is
// executed leaves a file in Marks; what is read to the model shows as the word
// "marker-" in a request.
type Pollution struct {
	Home, Project, Marks string
}

// Pollute fills fresh folders below dir.
func Pollute(tb testing.TB, dir string) Pollution {
	tb.Helper()
	p := Pollution{Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "home", "proj"), Marks: filepath.Join(dir, "marks")}
	touch := func(name string) string { return "touch " + filepath.Join(p.Marks, "MARK-"+name) }
	hooks := func(name string) string {
		h := `[{"hooks":[{"type":"command","command":"` + touch(name) + `"}]}]`
		return `{"hooks":{"SessionStart":` + h + `,"UserPromptSubmit":` + h + `,"Stop":` + h + `},"env":{"POLLUTED":"1"},"permissions":{"allow":["Bash(*)"]}}`
	}
	server := func(name string) string {
		return `{"mcpServers":{"` + name + `":{"command":"/bin/sh","args":["-c","` + touch(name) + `"]}}}`
	}
	codex := func(name string) string {
		return "model = \"evil-" + name + "\"\nnotify = [\"/bin/sh\", \"-c\", \"" + touch(name+"-notify") + "\"]\n[mcp_servers." + name + "]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"" + touch(name) + "\"]\n"
	}
	skill := func(name string) string {
		return "---\nname: " + name + "\ndescription: marker-" + name + "\n---\nmarker-" + name + "\n"
	}
	for path, text := range map[string]string{
		".claude.json":                        server("homesrv"),
		".claude/settings.json":               hooks("homehook"),
		".claude/CLAUDE.md":                   "marker-homeclaude",
		".claude/skills/u/SKILL.md":           skill("homeskill"),
		".claude/agents/a.md":                 skill("homeagent"),
		".claude/commands/c.md":               skill("homecommand"),
		".codex/config.toml":                  codex("homecodex"),
		".codex/AGENTS.md":                    "marker-homeagents",
		".codex/skills/s/SKILL.md":            skill("codexskill"),
		".codex/prompts/p.md":                 "marker-codexprompt",
		".agents/skills/y/SKILL.md":           skill("agentsskill"),
		".bashrc":                             touch("bashrc"),
		".profile":                            touch("profile"),
		"proj/.claude/settings.json":          hooks("projhook"),
		"proj/.claude/settings.local.json":    hooks("localhook"),
		"proj/.claude/skills/x/SKILL.md":      skill("projskill"),
		"proj/.claude/agents/ag.md":           skill("projagent"),
		"proj/.claude/commands/co.md":         skill("projcommand"),
		"proj/.mcp.json":                      server("projsrv"),
		"proj/CLAUDE.md":                      "marker-projclaude",
		"proj/CLAUDE.local.md":                "marker-projlocal",
		"proj/AGENTS.md":                      "marker-projagents",
		"proj/AGENTS.override.md":             "marker-projoverride",
		"proj/.codex/config.toml":             codex("projcodex"),
		"proj/.codex/skills/pc/SKILL.md":      skill("projcodexskill"),
		"proj/.agents/skills/z/SKILL.md":      skill("projagentsskill"),
		"proj/.codex/hooks.json":              hooks("projcodexhook"),
		"proj/file.txt":                       "needle\n",
		".claude/output-styles/loud.md":       skill("homestyle"),
		".claude/plugins/p/.claude/plugin.md": "marker-homeplugin",
	} {
		full := filepath.Join(p.Home, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.MkdirAll(p.Marks, 0o700); err != nil {
		tb.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", p.Project).CombinedOutput(); err != nil {
		tb.Fatalf("git init: %v\n%s", err, out)
	}
	return p
}

// Check fails the test for each mark that was left, and for each marker that
// is in one of the given requests.
func (p Pollution) Check(tb testing.TB, requests ...[]byte) {
	tb.Helper()
	marks, err := os.ReadDir(p.Marks)
	if err != nil {
		tb.Fatal(err)
	}
	for _, m := range marks {
		tb.Errorf("ambient configuration was executed: %s", m.Name())
	}
	for _, r := range requests {
		for text := string(r); ; {
			i := strings.Index(text, "marker-")
			if i < 0 {
				break
			}
			text = text[i:]
			end := strings.IndexFunc(text[7:], func(c rune) bool { return c < 'a' || c > 'z' })
			if end < 0 {
				end = len(text) - 7
			}
			tb.Errorf("ambient configuration reached the model: %s", text[:7+end])
			text = text[7+end:]
		}
	}
}
