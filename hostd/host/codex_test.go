package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/testkit/harnesses"
)

// The real Codex asks its terminal questions at its start. Nobody is attached:
// the relay answers, and the full-screen interface comes up.
func TestHost_RealCodexComesUpWithNobodyAttached(t *testing.T) {
	codex := harnesses.Codex(t)
	l := prepare(t)
	l.manifest.Harness = l.identity(l.copy(codex, "harness"))
	l.manifest.Argv = []string{"codex", "-C", l.manifest.Workspace.Path}
	l.manifest.Environment = map[string]string{
		"HOME": filepath.Join(l.dir, "overlay"), "CODEX_HOME": filepath.Join(l.dir, "overlay"),
		"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8", "SOPHIA_LAUNCH": "lp-0a1b2c",
	}
	config := `check_for_update_on_startup = false
model = "none"
model_provider = "none"
[model_providers.none]
name = "none"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
supports_websockets = false
[projects."` + l.manifest.Workspace.Path + `"]
trust_level = "untrusted"
`
	if err := os.WriteFile(filepath.Join(l.dir, "overlay", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l.start()
	r := l.awaitStage(messages.StageRunning)
	var text string
	await(t, "the interface of Codex", func() bool {
		b, err := terminal.Tail(t.Context(), l.manifest.Terminal.Socket)
		text = string(b)
		return err == nil && strings.Contains(text, "OpenAI Codex")
	})
	t.Logf("%d bytes of text on its screen", len(text))
	unix.Kill(r.HarnessPID, unix.SIGTERM)
	l.wait()
}
