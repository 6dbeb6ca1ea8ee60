package adopt_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
	"sophia/testkit/harnesses"
)

func adopter(t *testing.T) adopt.Adopter {
	t.Helper()
	set, err := contracts.New(map[string]contracts.Settings{
		"whole": {Version: "whole 1", HomeVar: "WHOLE_HOME", Entry: "bin/whole", WholeTree: true},
		"alone": {Version: "whole 1", HomeVar: "ALONE_HOME"},
	})
	fatal(t, err)
	dir := harnesses.Scratch(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	return adopt.Adopter{Contracts: set, Root: filepath.Join(dir, "harnesses"), Scratch: filepath.Join(dir, "w"),
		Now: func() time.Time { now = now.Add(time.Second); return now }}
}

// vendor builds a tree with real static programs; the main one says "whole 1".
func vendor(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "vendor")
	fatal(t, os.MkdirAll(root+"/bin", 0o755))
	fatal(t, os.MkdirAll(root+"/helpers/deep", 0o755))
	fatal(t, os.WriteFile(root+"/bin/whole", program(t, "whole 1"), 0o755))
	fatal(t, os.WriteFile(root+"/helpers/rg", program(t, "rg"), 0o755))
	fatal(t, os.WriteFile(root+"/helpers/deep/data", []byte("data"), 0o644))
	return root
}

func TestAdopt_CopiesTheWholeTreeReadOnly(t *testing.T) {
	a, root := adopter(t), vendor(t)
	rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	if rec.Version != "whole 1" || rec.Files != 3 || !strings.HasSuffix(rec.Identity.Path, "/whole/"+rec.Tree+"/tree/bin/whole") {
		t.Errorf("%+v", rec)
	}
	tree := a.TreeOf(rec.Identity.Path)
	fatal(t, adopt.VerifyTree(t.Context(), tree, rec.Tree))
	for p, mode := range map[string]os.FileMode{"": 0o555 | os.ModeDir, "bin": 0o555 | os.ModeDir, "bin/whole": 0o555, "helpers/rg": 0o555, "helpers/deep/data": 0o444} {
		if st, err := os.Stat(filepath.Join(tree, p)); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v %v", p, st.Mode(), err)
		}
	}
	// It can be launched from there, by the identity that was recorded.
	v := harness.Verifier{Contracts: a.Contracts, Scratch: a.Scratch}
	h, err := v.Verify(t.Context(), "whole", rec.Identity)
	fatal(t, err)
	h.Close()
	got, err := a.Current("whole")
	if err != nil || got != rec {
		t.Errorf("current %+v %v, adopted %+v", got, err, rec)
	}
}

func TestAdopt_AnUpgradeOfTheOriginalChangesNothing(t *testing.T) {
	a, root := adopter(t), vendor(t)
	rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	fatal(t, os.WriteFile(root+"/bin/whole", program(t, "whole 2"), 0o755))
	v := harness.Verifier{Contracts: a.Contracts, Scratch: a.Scratch}
	h, err := v.Verify(t.Context(), "whole", rec.Identity)
	fatal(t, err)
	h.Close()
	// And the upgrade is not adopted, because nobody has witnessed it.
	if _, err := a.Adopt(t.Context(), "whole", root+"/bin/whole"); problem.CodeOf(err) != "unsupported_harness_version" {
		t.Error(err)
	}
	if left := staged(t, a); len(left) != 0 {
		t.Errorf("left of the failed adoption: %v", left)
	}
}

func TestAdopt_IsByContent(t *testing.T) {
	a, root := adopter(t), vendor(t)
	one, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	again, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	if again != one {
		t.Errorf("the same bytes gave %+v, then %+v", one, again)
	}
	// A helper with other bytes is another harness, though the program is the same.
	fatal(t, os.WriteFile(root+"/helpers/rg", program(t, "evil"), 0o755))
	other, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	if other.Tree == one.Tree || other.Identity.SHA256 != one.Identity.SHA256 {
		t.Errorf("tree %s and %s", one.Tree, other.Tree)
	}
	all, err := a.List()
	if err != nil || len(all) != 2 || all[0] != other {
		t.Errorf("list %+v %v", all, err)
	}
}

func TestAdopt_EachChangeOfTheTreeIsSeen(t *testing.T) {
	for name, change := range map[string]func(tree string) error{
		"a helper's bytes": func(d string) error {
			fatal(t, os.Chmod(d+"/helpers/rg", 0o755))
			return os.WriteFile(d+"/helpers/rg", program(t, "xx"), 0o755)
		},
		"a file more":           func(d string) error { return os.WriteFile(d+"/helpers/more", nil, 0o644) },
		"a file less":           func(d string) error { return os.Remove(d + "/helpers/deep/data") },
		"an executable bit":     func(d string) error { return os.Chmod(d+"/helpers/deep/data", 0o555) },
		"a file under new name": func(d string) error { return os.Rename(d+"/helpers/rg", d+"/helpers/rh") },
	} {
		t.Run(name, func(t *testing.T) {
			a, root := adopter(t), vendor(t)
			rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
			fatal(t, err)
			tree := a.TreeOf(rec.Identity.Path)
			for _, d := range []string{"", "/helpers", "/helpers/deep"} {
				fatal(t, os.Chmod(tree+d, 0o755))
			}
			fatal(t, change(tree))
			if err := adopt.VerifyTree(t.Context(), tree, rec.Tree); problem.CodeOf(err) != "managed_harness_identity_changed" {
				t.Error(err)
			}
			if _, err := a.Adopt(t.Context(), "whole", root+"/bin/whole"); problem.CodeOf(err) != "managed_harness_identity_changed" {
				t.Errorf("adopting over it: %v", err)
			}
		})
	}
}

func TestAdopt_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		code  string
		spoil func(root string) string
	}{
		"a link in the tree":       {"harness_tree_irregular", func(r string) string { fatal(t, os.Symlink("/etc/passwd", r+"/helpers/l")); return r + "/bin/whole" }},
		"a program outside a tree": {"harness_tree_unknown", func(r string) string { fatal(t, os.Rename(r+"/bin/whole", r+"/whole")); return r + "/whole" }},
		"a script": {"managed_harness_not_elf", func(r string) string {
			fatal(t, os.WriteFile(r+"/bin/whole", []byte("#!/bin/sh\necho whole 1 and so on and on and on until it is long enough\n"), 0o755))
			return r + "/bin/whole"
		}},
		"nothing there":             {"managed_harness_missing", func(r string) string { return r + "/bin/nothing" }},
		"a program others may edit": {"managed_harness_writable", func(r string) string { fatal(t, os.Chmod(r+"/bin/whole", 0o777)); return r + "/bin/whole" }},
	} {
		t.Run(name, func(t *testing.T) {
			a := adopter(t)
			if _, err := a.Adopt(t.Context(), "whole", c.spoil(vendor(t))); problem.CodeOf(err) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
			if all, err := a.List(); err != nil || len(all) != 0 || len(staged(t, a)) != 0 {
				t.Errorf("adopted %v %v, left %v", all, err, staged(t, a))
			}
		})
	}
}

// npm's Claude Code has two names; its copy has one.
func TestAdopt_HardLinkedOriginal(t *testing.T) {
	a, root := adopter(t), vendor(t)
	fatal(t, os.Link(root+"/bin/whole", root+"/second"))
	rec, err := a.Adopt(t.Context(), "alone", root+"/second")
	fatal(t, err)
	if !strings.HasSuffix(rec.Identity.Path, "/tree/alone") || rec.Files != 1 {
		t.Errorf("%+v", rec)
	}
	f, err := os.OpenFile(root+"/second", os.O_WRONLY|os.O_APPEND, 0)
	fatal(t, err)
	fmt.Fprint(f, "more")
	f.Close()
	fatal(t, adopt.VerifyTree(t.Context(), a.TreeOf(rec.Identity.Path), rec.Tree))
}

func TestFind_ThroughNpmsLauncher(t *testing.T) {
	dir := t.TempDir()
	modules := dir + "/lib/node_modules"
	native := modules + "/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
	for p, b := range map[string][]byte{modules + "/@openai/codex/bin/codex.js": []byte("#!/usr/bin/env node\n"), native: program(t, "x")} {
		fatal(t, os.MkdirAll(filepath.Dir(p), 0o755))
		fatal(t, os.WriteFile(p, b, 0o755))
	}
	fatal(t, os.MkdirAll(dir+"/bin", 0o755))
	fatal(t, os.Symlink("../lib/node_modules/@openai/codex/bin/codex.js", dir+"/bin/codex"))
	set, err := contracts.New(nil)
	fatal(t, err)
	c, err := set.Get("codex")
	fatal(t, err)
	got, err := adopt.Find(c, "relative:/nowhere:"+dir+"/bin")
	if err != nil || got != native {
		t.Errorf("%s %v", got, err)
	}
	if _, err := adopt.Find(c, "/nowhere"); problem.CodeOf(err) != "harness_not_installed" {
		t.Error(err)
	}
}

func TestAdopt_RealCodexAndClaudeCode(t *testing.T) {
	a := adopter(t)
	for id, c := range map[string]struct {
		path  func(testing.TB) string
		files int
	}{"codex": {harnesses.Codex, 6}, "claude-code": {harnesses.ClaudeCode, 1}} {
		rec, err := a.Adopt(t.Context(), id, c.path(t))
		fatal(t, err)
		if rec.Files != c.files {
			t.Errorf("%s: %d files", id, rec.Files)
		}
		v := harness.Verifier{Contracts: a.Contracts, Scratch: a.Scratch}
		h, err := v.Verify(t.Context(), id, rec.Identity)
		fatal(t, err)
		if h.Lease() != nil {
			t.Errorf("%s: %v", id, h.Lease())
		}
		h.Close()
	}
	if a.TreeOf("/usr/bin/codex") != "" {
		t.Error("what was not adopted has a tree")
	}
}

func staged(t *testing.T, a adopt.Adopter) []string {
	t.Helper()
	left, err := filepath.Glob(a.Root + "/*/.staging-*")
	fatal(t, err)
	return left
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// program compiles a static program that prints one line.
func program(tb testing.TB, says string) []byte {
	tb.Helper()
	dir := tb.TempDir()
	fatal(tb, os.WriteFile(dir+"/p.c", []byte("#include <stdio.h>\nint main(void) { puts(\""+says+"\"); return 0; }\n"), 0o600))
	if out, err := exec.Command("cc", "-static", "-o", dir+"/p", dir+"/p.c").CombinedOutput(); err != nil {
		tb.Fatalf("the C compiler: %v\n%s", err, out)
	}
	b, err := os.ReadFile(dir + "/p")
	fatal(tb, err)
	return b
}
