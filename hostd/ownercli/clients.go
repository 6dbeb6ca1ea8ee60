package ownercli

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"sophia/messages"
)

// Wiring is what an agent's configuration must say.
type Wiring struct {
	URL        string `json:"url"`
	BearerFile string `json:"bearer_file"`
	Wrapper    string `json:"wrapper"`        // absolute path of sophia-wrapper
	HTTP       bool   `json:"http,omitempty"` // over HTTP with $SOPHIA_BEARER, instead of the wrapper
}

func (w Wiring) args() []string { return []string{"--url", w.URL, "--bearer-file", w.BearerFile} }

// client is a kind of agent.
type client struct {
	verb, title string
	toolNames   string              // Cursor refuses dots
	file        func(a *App) string // its configuration; nil: there is none to write
	edit        func(before []byte, w Wiring) ([]byte, error)
	snippet     func(w Wiring) string
	// holds says whether the configuration's entry for Sophia is this one.
	holds func(text []byte, w Wiring) bool
	// remove takes the entry out, and with servers the object around it if that
	// is empty then.
	remove func(text []byte, servers bool) ([]byte, error)
}

var clients = []client{
	{verb: "codex", title: "Codex", toolNames: messages.DottedNames, file: codexFile, edit: editCodex, snippet: codexTable,
		holds: codexHolds, remove: func(text []byte, _ bool) ([]byte, error) { return removeCodex(text) }},
	{verb: "claude-code", title: "Claude Code", toolNames: messages.DottedNames,
		file:    func(a *App) string { return filepath.Join(a.Dir, ".mcp.json") },
		edit:    func(before []byte, w Wiring) ([]byte, error) { return editMCPServers(before, claudeEntry(w)) },
		snippet: func(w Wiring) string { return jsonSnippet(claudeEntry(w)) },
		holds:   func(text []byte, w Wiring) bool { return jsonHolds(text, claudeEntry(w)) }, remove: removeMCPServer},
	{verb: "cursor", title: "Cursor", toolNames: messages.UnderscoreNames,
		file:    func(a *App) string { return filepath.Join(a.Getenv("HOME"), ".cursor", "mcp.json") },
		edit:    func(before []byte, w Wiring) ([]byte, error) { return editMCPServers(before, cursorEntry(w)) },
		snippet: func(w Wiring) string { return jsonSnippet(cursorEntry(w)) },
		holds:   func(text []byte, w Wiring) bool { return jsonHolds(text, cursorEntry(w)) }, remove: removeMCPServer},
	{verb: "generic", title: "Agent", toolNames: messages.DottedNames},
}

// Fields in the order in which they are written.
type (
	stdioEntry struct {
		Type    string   `json:"type,omitempty"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	httpEntry struct {
		Type    string            `json:"type,omitempty"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
)

func claudeEntry(w Wiring) any {
	if w.HTTP {
		return httpEntry{Type: "http", URL: w.URL, Headers: map[string]string{"Authorization": "Bearer ${SOPHIA_BEARER}"}}
	}
	return stdioEntry{Type: "stdio", Command: w.Wrapper, Args: w.args()}
}

func cursorEntry(w Wiring) any {
	if w.HTTP {
		return httpEntry{URL: w.URL, Headers: map[string]string{"Authorization": "Bearer ${env:SOPHIA_BEARER}"}}
	}
	return stdioEntry{Command: w.Wrapper, Args: w.args()}
}

func jsonSnippet(entry any) string {
	text, err := editMCPServers(nil, entry)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func editMCPServers(before []byte, entry any) ([]byte, error) {
	return SetJSON(before, []string{"mcpServers", "sophia"}, entry)
}

func codexFile(a *App) string {
	if home := a.Getenv("CODEX_HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, "config.toml")
	}
	return filepath.Join(a.Getenv("HOME"), ".codex", "config.toml")
}

func codexValues(w Wiring) map[string]any {
	if w.HTTP {
		return map[string]any{"url": w.URL, "bearer_token_env_var": "SOPHIA_BEARER"}
	}
	args := make([]any, 0, 4)
	for _, arg := range w.args() {
		args = append(args, arg)
	}
	return map[string]any{"command": w.Wrapper, "args": args}
}

func codexTable(w Wiring) string {
	var b strings.Builder
	b.WriteString("[mcp_servers.sophia]\n")
	if w.HTTP {
		fmt.Fprintf(&b, "url = %s\nbearer_token_env_var = \"SOPHIA_BEARER\"\n", tomlString(w.URL))
		return b.String()
	}
	quoted := make([]string, 0, 4)
	for _, arg := range w.args() {
		quoted = append(quoted, tomlString(arg))
	}
	fmt.Fprintf(&b, "command = %s\nargs = [%s]\n", tomlString(w.Wrapper), strings.Join(quoted, ", "))
	return b.String()
}

// tomlString is a basic string (TOML 1.0); the only escapes that a path or a
// URL can need.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var (
	sophiaTable = regexp.MustCompile(`^\s*\[\s*"?mcp_servers"?\s*\.\s*"?sophia"?\s*[.\]]`)
	anyTable    = regexp.MustCompile(`^\s*\[`)
)

// editCodex puts the table in place of an older one, or at the end, and leaves
// every other byte alone. The result is read back: it must say what the file
// said before, and what was wanted, and nothing else.
func editCodex(before []byte, w Wiring) ([]byte, error) {
	var out []string
	at, inside := -1, false
	for line := range strings.Lines(string(before)) {
		switch {
		case sophiaTable.MatchString(line):
			inside = true
			if at < 0 {
				at = len(out)
			}
		case anyTable.MatchString(line):
			inside = false
		}
		if !inside {
			out = append(out, line)
		} else if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			out = append(out, line) // the owner's remarks, and the space before what follows
		}
	}
	table := codexTable(w)
	if at < 0 {
		if n := len(out); n > 0 {
			if !strings.HasSuffix(out[n-1], "\n") {
				out[n-1] += "\n"
			}
			if strings.TrimSpace(out[n-1]) != "" {
				table = "\n" + table
			}
		}
		at = len(out)
	}
	after := []byte(strings.Join(out[:at], "") + table + strings.Join(out[at:], ""))
	return after, sameButSophia(before, after, codexValues(w))
}

func sameButSophia(before, after []byte, want map[string]any) error {
	had, has := map[string]any{}, map[string]any{}
	if err := toml.Unmarshal(before, &had); err != nil {
		return fmt.Errorf("it is no well-formed TOML: %w", err)
	}
	if err := toml.Unmarshal(after, &has); err != nil {
		return fmt.Errorf("its entry for sophia is written in a way that can't be replaced: %w", err)
	}
	if !reflect.DeepEqual(takeSophia(has), any(want)) {
		return errors.New("its entry for sophia is written in a way that can't be replaced")
	}
	takeSophia(had)
	if !reflect.DeepEqual(had, has) {
		return errors.New("changing it would change something else")
	}
	return nil
}

// takeSophia removes the entry, and the table around it when that is empty then.
func takeSophia(config map[string]any) any {
	servers, ok := config["mcp_servers"].(map[string]any)
	if !ok {
		return nil
	}
	entry := servers["sophia"]
	delete(servers, "sophia")
	if len(servers) == 0 {
		delete(config, "mcp_servers")
	}
	return entry
}
