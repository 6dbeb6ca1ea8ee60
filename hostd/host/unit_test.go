package host_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/terminal"
	"sophia/hostd/unit"
	"sophia/messages"
	"sophia/testkit/usermanager"
)

// The whole of it in a real unit, plain and confined.
func TestHost_RunsAsAUnit(t *testing.T) {
	for _, confine := range []string{unit.Standard, unit.Strict} {
		t.Run(confine, func(t *testing.T) {
			systemd := usermanager.Start(t)
			m := unit.New(systemd.Getenv)
			defer m.Close()
			l := prepare(t, "fds", "cwd", "daemon:ignore-term;forever", `query:\e[6n`, "pid:ready", "forever")
			l.write()
			ref, err := m.Start(t.Context(), unit.Spec{
				Launch: l.manifest.Launch, Host: l.host, Manifest: l.path(), Digest: l.digest, Confine: confine,
				ReadWrite: []string{l.dir}, ReadOnly: []string{filepath.Join(l.dir, "bin")},
			})
			if err != nil {
				t.Fatal(err)
			}
			l.awaitStage(messages.StageRunning)
			await(t, "the harness's steps", func() bool {
				text, err := terminal.Tail(t.Context(), l.manifest.Terminal.Socket)
				return err == nil && strings.Contains(string(text), `answer "\x1b[1;1R"`)
			})
			text, _ := terminal.Tail(t.Context(), l.manifest.Terminal.Socket)
			if n := strings.Count(string(text), "\nfd ") + 1; n != 3 || !strings.Contains(string(text), "cwd "+l.manifest.Workspace.Path) {
				t.Errorf("in the unit the harness sees: %s", text)
			}
			mark := unit.Mark{Launch: l.manifest.Launch, Folder: l.dir}
			if alive, err := unit.Quiet(ref, mark); err != nil || len(alive) < 3 {
				t.Errorf("alive: %v, %v", alive, err)
			}
			states := m.Watch(t.Context(), ref)
			if err := m.End(t.Context(), ref, time.Second); err != nil {
				t.Fatal(err)
			}
			for s := range states {
				if s.Over() {
					t.Logf("%v", s)
				}
			}
			if alive, err := unit.Quiet(ref, mark); err != nil || len(alive) > 0 {
				t.Errorf("after the end: %v, %v", alive, err)
			}
		})
	}
}
