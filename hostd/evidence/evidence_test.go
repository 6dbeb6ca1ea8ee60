package evidence_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/evidence"
	"sophia/messages"
	"sophia/messages/problem"
)

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// home has one source of each state.
func home(t *testing.T) (dir string, sources []string) {
	dir = t.TempDir()
	for path, text := range map[string]string{".codex/config.toml": "model", ".codex/skills/a/SKILL.md": "a", ".codex/skills/b/SKILL.md": "b", "dot/gitconfig": "[user]"} {
		fatal(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		fatal(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600))
	}
	fatal(t, os.Symlink("dot/gitconfig", filepath.Join(dir, ".gitconfig")))
	fatal(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	fatal(t, os.Symlink("..", filepath.Join(dir, ".codex/skills/loop")))
	for _, s := range []string{".codex/config.toml", ".codex/skills", ".gitconfig", ".claude.json", "dangling"} {
		sources = append(sources, filepath.Join(dir, s))
	}
	return dir, sources
}

func TestEvidence_StatesAndUntouched(t *testing.T) {
	_, sources := home(t)
	before, err := evidence.Take(t.Context(), sources)
	fatal(t, err)
	var states []string
	for _, s := range before {
		states = append(states, s.State)
		if s.State != evidence.Missing && len(s.SHA256) != 64 {
			t.Errorf("%+v has no digest", s)
		}
	}
	if want := []string{"file", "dir", "file", "missing", "missing"}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
	e, err := evidence.Complete(t.Context(), before)
	if err != nil || !e.Untouched || len(e.After) != len(sources) {
		t.Errorf("%+v %v", e, err)
	}
}

func TestEvidence_EachChangeIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		change func(dir string) error
	}{
		"content of the same size": {".codex/config.toml", func(d string) error { return os.WriteFile(d+"/.codex/config.toml", []byte("MODEL"), 0o600) }},
		"deleted":                  {".codex/config.toml", func(d string) error { return os.Remove(d + "/.codex/config.toml") }},
		"appeared":                 {".claude.json", func(d string) error { return os.WriteFile(d+"/.claude.json", nil, 0o600) }},
		"a file deep in a folder":  {".codex/skills", func(d string) error { return os.WriteFile(d+"/.codex/skills/b/SKILL.md", []byte("B"), 0o600) }},
		"an empty folder inside":   {".codex/skills", func(d string) error { return os.Mkdir(d+"/.codex/skills/c", 0o700) }},
		"renamed inside":           {".codex/skills", func(d string) error { return os.Rename(d+"/.codex/skills/b", d+"/.codex/skills/c") }},
		"file became folder": {".codex/config.toml", func(d string) error {
			fatal(t, os.Remove(d+"/.codex/config.toml"))
			return os.Mkdir(d+"/.codex/config.toml", 0o700)
		}},
		"behind a link": {".gitconfig", func(d string) error { return os.WriteFile(d+"/dot/gitconfig", []byte("[core]"), 0o600) }},
		"link to an equal file": {".gitconfig", func(d string) error {
			fatal(t, os.WriteFile(d+"/dot/other", []byte("[user]"), 0o600))
			fatal(t, os.Remove(d+"/.gitconfig"))
			return os.Symlink("dot/other", d+"/.gitconfig")
		}},
		"a dangling link elsewhere": {"dangling", func(d string) error {
			fatal(t, os.Remove(d+"/dangling"))
			return os.Symlink("nowhere-else", d+"/dangling")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, sources := home(t)
			before, err := evidence.Take(t.Context(), sources)
			fatal(t, err)
			fatal(t, c.change(dir))
			e, err := evidence.Complete(t.Context(), before)
			if problem.CodeOf(err) != "isolation_evidence_changed" || e.Untouched || !slices.Equal(e.Changed, []string{filepath.Join(dir, c.source)}) {
				t.Errorf("changed %v, %v", e.Changed, err)
			}
		})
	}
}

// The custodian may write a renewed credential back while another launch runs.
func TestEvidence_WhatSophiaItselfWroteIsNoTouch(t *testing.T) {
	dir, sources := home(t)
	before, err := evidence.Take(t.Context(), sources)
	fatal(t, err)
	fatal(t, os.WriteFile(dir+"/dot/gitconfig", []byte("renewed"), 0o600))
	real, err := filepath.EvalSymlinks(dir + "/.gitconfig")
	fatal(t, err)
	d := sha256.Sum256([]byte("renewed"))
	ours := evidence.Known{Path: real, SHA256: hex.EncodeToString(d[:])}
	if e, err := evidence.Complete(t.Context(), before, ours); err != nil || !e.Untouched {
		t.Errorf("%v %v", e.Changed, err)
	}
	for name, k := range map[string]evidence.Known{"another content": {Path: real, SHA256: strings.Repeat("0", 64)}, "another file": {Path: dir + "/.codex/config.toml", SHA256: ours.SHA256}} {
		if _, err := evidence.Complete(t.Context(), before, k); problem.CodeOf(err) != "isolation_evidence_changed" {
			t.Errorf("%s: %v", name, err)
		}
	}
	fatal(t, os.WriteFile(dir+"/.codex/config.toml", []byte("MODEL"), 0o600))
	if e, _ := evidence.Complete(t.Context(), before, ours); !slices.Equal(e.Changed, []string{dir + "/.codex/config.toml"}) {
		t.Errorf("changed %v", e.Changed)
	}
}

func TestEvidence_ALargeFileCountsByItsTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	fatal(t, os.WriteFile(path, nil, 0o600))
	fatal(t, os.Truncate(path, 1<<40)) // sparse
	before, err := evidence.Take(t.Context(), []string{path})
	fatal(t, err)
	if e, err := evidence.Complete(t.Context(), before); err != nil {
		t.Fatal(e, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	fatal(t, err)
	_, err = f.WriteAt([]byte("x"), 1<<39)
	fatal(t, err)
	fatal(t, f.Close())
	// Setting the times back does not hide it.
	st, err := os.Stat(path)
	fatal(t, err)
	fatal(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
	if _, err := evidence.Complete(t.Context(), before); problem.CodeOf(err) != "isolation_evidence_changed" {
		t.Fatal(err)
	}
}

func TestEvidence_AFifoDoesNotHoldIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	fatal(t, unix.Mkfifo(path, 0o600))
	before, err := evidence.Take(t.Context(), []string{path, filepath.Dir(path)})
	if err != nil || before[0].State != evidence.Other {
		t.Fatal(before, err)
	}
}

func TestEvidence_UnreadableIsAState(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	path := filepath.Join(t.TempDir(), "f")
	fatal(t, os.WriteFile(path, []byte("x"), 0))
	before, err := evidence.Take(t.Context(), []string{path})
	if err != nil || before[0].State != evidence.Unreadable || before[0].SHA256 == "" {
		t.Fatal(before, err)
	}
}

func TestCompare_ASourceOfOneSideDiffers(t *testing.T) {
	a := messages.SourceState{Path: "/a", State: evidence.Missing}
	b := messages.SourceState{Path: "/b", State: evidence.Missing}
	if got := evidence.Compare([]messages.SourceState{a}, []messages.SourceState{a, b}); !slices.Equal(got, []string{"/b"}) {
		t.Error(got)
	}
	if got := evidence.Compare([]messages.SourceState{a, b}, []messages.SourceState{b}); !slices.Equal(got, []string{"/a"}) {
		t.Error(got)
	}
}
