package tools_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/actors/typecheck"
	"sophia/messages"
	"sophia/testkit/programs"
	whole "sophia/testkit/surface"
)

// compiler is tsgo: the one that .ci/setup installs, or the one on PATH.
func compiler(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	p := typecheck.Find("", filepath.Join(cache, "sophia-test", "npm"))
	if p == "" {
		t.Skip("tsgo_absent: no TypeScript compiler; .ci/setup installs it")
	}
	return p
}

// willing is an owner who approves everything.
type willing struct{ asked []messages.ApprovalRequest }

func (w *willing) Request(_ context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	w.asked = append(w.asked, r)
	return messages.ApprovalVerdict{ID: "ap-000001", Outcome: messages.OutcomeApproved, Digest: r.Digest}, nil
}

// workspace is a folder with a little of everything.
func workspace(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"README.md":     "# Leases\n\nA lease ends after 3600 seconds.\n\n## Renewal\n\nNobody renews a lease.\n",
		"docs/plan.md":  "# Plan\n\nRenew the lease of the office, ask the landlord.\n",
		"docs/notes.md": "# Notes\n\nThe supervision tree restarts what failed.\n",
		"go.mod":        "module example.com/app\n",
		"main.go":       "// Command app is small.\npackage main\n\nfunc main() { openLease() }\n\n// openLease opens one.\nfunc openLease() {}\n",
		"logo.png":      "\x89PNG\x00",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wholeSurface is a real store with a workspace, real isolates and the compiler.
func wholeSurface(t *testing.T, o whole.Options) *whole.Surface {
	t.Helper()
	o.Dir = t.TempDir()
	s, err := whole.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Import(t.Context(), "ws-000001", workspace(t), "acme"); err != nil {
		t.Fatal(err)
	}
	for _, a := range []messages.Authority{agentA, agentB} {
		if err := s.Mint(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

type snippetCase struct{ name, says, code string }

func snippets(t testing.TB, file string) []snippetCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "snippets", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []snippetCase
	for _, part := range strings.Split("\n"+string(b), "\n=== ")[1:] {
		head, code, _ := strings.Cut(part, "\n")
		name, says, _ := strings.Cut(head, " | ")
		out = append(out, snippetCase{name, says, code})
	}
	return out
}

type execution struct {
	Status    string
	TypeCheck string `json:"type_check"`
	Value     any
	Calls     []messages.RunCall
	Error     *messages.RunError
}

// What would have run is never refused: each idiom passes the check, and runs.
func TestTypeCheck_RefusesNothingThatRuns(t *testing.T) {
	s := wholeSurface(t, whole.Options{Isolate: programs.Build(t, "sophia-isolate"), Compile: programs.Build(t, "sophia-compile"), Checker: compiler(t), Gate: &willing{}})
	all := snippets(t, "good.txt")
	if len(all) < 60 {
		t.Errorf("only %d snippets", len(all))
	}
	for _, c := range all {
		var r execution
		if err := s.Do(t.Context(), agentA, "execute_code", map[string]any{"code": c.code}, &r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.TypeCheck != typecheck.Passed || r.Status != messages.RunOK {
			t.Errorf("%s: %s, %s %+v\n%s", c.name, r.TypeCheck, r.Status, r.Error, c.code)
		}
	}
}

// Each mistake is found before anything runs, and the error says where and what
// to do. Unchecked, none of them does what it was meant to.
func TestTypeCheck_FindsMistakesBeforeTheRun(t *testing.T) {
	s := wholeSurface(t, whole.Options{Isolate: programs.Build(t, "sophia-isolate"), Compile: programs.Build(t, "sophia-compile"), Checker: compiler(t)})
	all := snippets(t, "mistaken.txt")
	if len(all) < 30 {
		t.Errorf("only %d snippets", len(all))
	}
	for _, c := range all {
		var r execution
		if err := s.Do(t.Context(), agentA, "execute_code", map[string]any{"code": c.code}, &r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.TypeCheck != typecheck.Failed || r.Error == nil || r.Error.Kind != messages.KindType || len(r.Calls) > 0 || r.Status != messages.RunFailed {
			t.Errorf("%s: %s, %s, %v %+v\n%s", c.name, r.TypeCheck, r.Status, r.Value, r.Error, c.code)
			continue
		}
		lines := strings.Split(c.code, "\n")
		if e := r.Error; e.Line < 1 || e.Column < 1 || e.Line > len(lines) || e.Frame != lines[e.Line-1] || !strings.Contains(e.Hint, "check: 'off'") {
			t.Errorf("%s: %+v", c.name, *e)
		}
		told := strings.ToLower(r.Error.Message + " | " + r.Error.Hint)
		found := false
		for says := range strings.SplitSeq(strings.ToLower(c.says), "|") {
			found = found || strings.Contains(told, says)
		}
		if !found {
			t.Errorf("%s: %q, want %q", c.name, told, c.says)
		}
	}
}
