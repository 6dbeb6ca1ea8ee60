package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/testkit/harnesses"
)

var fake = contracts.Contract{ID: "fake", Version: "fake 1.0", VersionArgs: []string{"--version"}, Entry: "fake", HomeVar: "FAKE_HOME"}

func witness(t *testing.T, ctx context.Context, source, scratch string) (string, error) {
	t.Helper()
	h := must[*harness.Held](t)(harness.Hold(t.Context(), compile(t, source, "-static"), static))
	defer h.Close()
	return h.Witness(ctx, fake, scratch)
}

func TestWitness_AcceptsThePinnedVersion(t *testing.T) {
	scratch := t.TempDir()
	out, err := witness(t, t.Context(), saysVersion, scratch)
	if err != nil || out != "fake 1.0" {
		t.Fatal(out, err)
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(scratch)); len(left) != 0 {
		t.Errorf("litter: %v", left)
	}
}

func TestWitness_RefusesAnotherVersion(t *testing.T) {
	for name, says := range map[string]string{
		"upgraded": "fake 1.1\\n", "prefix": "fake 1.0-beta\\n", "two lines": "fake 1.0\\n\\n", "leading space": " fake 1.0\\n", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := witness(t, t.Context(), `#include <stdio.h>
int main(void) { fputs("`+says+`", stdout); return 0; }`, t.TempDir())
			refused(t, err, "unsupported_harness_version")
		})
	}
}

func TestWitness_RefusesAFailingProgram(t *testing.T) {
	_, err := witness(t, t.Context(), `#include <stdio.h>
int main(void) { puts("fake 1.0"); return 3; }`, t.TempDir())
	refused(t, err, "unsupported_harness_version")
}

func TestWitness_OutputIsBounded(t *testing.T) {
	_, err := witness(t, t.Context(), `#include <stdio.h>
int main(void) { for (;;) puts("fake 1.0"); }`, t.TempDir())
	refused(t, err, "unsupported_harness_version")
	if !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Error(err)
	}
}

// A child that keeps the pipe open must neither survive nor hold the witness.
func TestWitness_TimeIsBoundedAndChildrenEnd(t *testing.T) {
	scratch := t.TempDir()
	mark := filepath.Join(scratch, "alive")
	fatal(t, os.Mkdir(mark, 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := witness(t, ctx, `#include <unistd.h>
int main(void) { if (fork() == 0) { if (chdir("`+mark+`")) return 1; for (;;) pause(); } for (;;) pause(); }`, scratch)
	refused(t, err, "unsupported_harness_version")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	// The group is killed; the kernel takes a moment to let the child go.
	deadline := time.Now().Add(5 * time.Second)
	for stands(t, mark) {
		if time.Now().After(deadline) {
			t.Fatal("a child of the witness is still alive")
		}
	}
}

// stands tells whether a process has dir as its working directory.
func stands(t *testing.T, dir string) bool {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	fatal(t, err)
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == dir {
			return true
		}
	}
	return false
}

func TestWitness_RunsTheHeldBytesInAnEmptyEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-ambient")
	t.Setenv("LD_PRELOAD_X", "x")
	source := `#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
int main(int c, char **v) {
  int n = 0; for (char **e = environ; *e; e++) n++;
  char cwd[4096]; if (!getcwd(cwd, sizeof cwd)) return 1;
  char *home = getenv("FAKE_HOME");
  if (n != 2 || !home || strcmp(home, cwd) || strcmp(getenv("HOME"), cwd) || c != 2 || strcmp(v[1], "--version")) { puts("ambient"); return 0; }
  for (int fd = 3; fd < 1024; fd++) if (!close(fd)) { puts("descriptor"); return 0; }
  puts("fake 1.0"); return 0; }`
	path := compile(t, source, "-static")
	h := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	defer h.Close()
	if out, err := h.Witness(t.Context(), fake, t.TempDir()); err != nil {
		t.Fatal(out, err)
	}
	// The path now leads to a program of another version; the held one is what
	// runs, and the swap is what is refused.
	fatal(t, os.Rename(compile(t, strings.ReplaceAll(saysVersion, "fake 1.0", "evil 9"), "-static"), path))
	out, err := h.Witness(t.Context(), fake, t.TempDir())
	if out != "fake 1.0" {
		t.Errorf("ran other bytes: %q", out)
	}
	refused(t, err, "managed_harness_identity_changed")
}

func TestVerify_RealCodexAndClaudeCode(t *testing.T) {
	set := must[contracts.Set](t)(contracts.New(nil))
	v := harness.Verifier{Contracts: set, Scratch: filepath.Join(harnesses.Scratch(t), "w")}
	codex := harnesses.Codex(t)
	id, version, err := v.Identify(t.Context(), "codex", codex)
	if err != nil || version != "codex-cli 0.147.0" {
		t.Fatal(version, err)
	}
	h := must[*harness.Held](t)(v.Verify(t.Context(), "codex", id))
	fatal(t, h.Recheck())
	h.Close()
	drifted := id
	drifted.SHA256 = strings.Repeat("0", 64)
	_, err = v.Verify(t.Context(), "codex", drifted)
	refused(t, err, "managed_harness_identity_changed")

	// npm's own Claude Code has two names, which is a refusal; a copy has one.
	claude := harnesses.ClaudeCode(t)
	if _, _, err := v.Identify(t.Context(), "claude-code", claude); err != nil {
		refused(t, err, "managed_harness_hardlinked")
	}
	copied := filepath.Join(harnesses.Scratch(t), "claude")
	fatal(t, os.WriteFile(copied, must[[]byte](t)(os.ReadFile(claude)), 0o755))
	if _, version, err := v.Identify(t.Context(), "claude-code", copied); err != nil || version != "2.1.222 (Claude Code)" {
		t.Fatal(version, err)
	}
	// Claude Code is not static, so the contract matters.
	_, _, err = v.Identify(t.Context(), "codex", copied)
	refused(t, err, "managed_harness_not_static")
	_, err = v.Verify(t.Context(), "cursor", messages.FileIdentity{})
	refused(t, err, "unknown_harness")
}
