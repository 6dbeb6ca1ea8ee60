package ownercli_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// offered are the completions of a command line whose last word is being typed.
func (s *shell) offered(words ...string) []string {
	s.t.Helper()
	code, out, _ := s.runArgs(append([]string{"__complete"}, words...)...)
	if code != 0 {
		s.t.Errorf("completing %q: exit %d\n%s", words, code, out)
	}
	var values []string
	for line := range strings.Lines(out) {
		if value, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); !strings.HasPrefix(value, ":") {
			values = append(values, value)
		}
	}
	return values
}

func TestComplete_OffersRealIDs(t *testing.T) {
	s := newShellWith(t, desk{}.fill(""))
	s.now = func() time.Time { return noon }
	for _, c := range []struct{ line, want string }{
		{"agent attach |", "lp-9c41d7"},
		{"agent stop |", "lp-9c41d7"},
		{"agent logs |", "lp-9c41d7"},
		{"agent show |", "lp-9c41d7 lp-000001"},
		{"agent show lp-9c41d7 |", ""},
		{"agent start --workspace |", "ws-1f2ce8"},
		{"agent start --workspace ws-1f2ce8 --profile |", "codex-reviewer"},
		{"agent start --harness |", "claude-code codex"},
		{"agent start --permission |", "observer assistant full"},
		{"agent start --tool-surface |", "core full code"},
		{"agent start --confine |", "standard strict"},
		{"agent start --write-approval |", "profile always"},
		{"agent catalog --workspace |", "ws-1f2ce8"},
		{"connection revoke |", "conn-0a1b2c3d conn-4e5f6a7b conn-9"},
		{"connection mint x --profile |", "observer assistant full"},
		{"connect codex --surface |", "core full code"},
		{"connect codex --tool-names |", "dotted underscore"},
		{"disconnect |", "conn-0a1b2c3d conn-4e5f6a7b conn-9"},
		{"disconnect --config |", ""},
		{"harness adopt |", "claude-code codex"},
		{"approval show |", "ap-00c0de"},
		{"journal show |", "42 41 40"},
		{"journal revert |", "42 41 40"},
		{"tool call |", "sophia.orient sophia.post_message sophia.remember_fact"},
		{"tool describe |", "sophia.orient sophia.post_message sophia.remember_fact"},
		{"tool list --group |", "orient coordination mutate_knowledge"},
		{"agent |", "attach catalog list logs show start stop"},
	} {
		words := strings.Fields(strings.TrimSuffix(c.line, "|"))
		got := s.offered(append(words, "")...)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	if got := s.offered(""); !slices.Contains(got, "doctor") || !slices.Contains(got, "disconnect") {
		t.Errorf("commands: %q", got)
	}
}

// Completing while no daemon runs offers nothing, and above all prints no error
// into the line that is being typed.
func TestComplete_WithoutADaemonIsSilent(t *testing.T) {
	s := newShellWith(t, desk{}.fill(""))
	s.home = t.TempDir()
	if got := s.offered("agent", "show", ""); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
