package contracts_test

import (
	"slices"
	"strings"
	"testing"

	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/messages/problem"
)

func TestSet_KnowsBothAndNamesThemToWhoAsksForAnother(t *testing.T) {
	set, err := contracts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, version := range map[string]string{"codex": "codex-cli 0.147.0", "claude-code": "2.1.222 (Claude Code)"} {
		if c, err := set.Get(id); err != nil || c.Version != version {
			t.Errorf("%s: %q %v", id, c.Version, err)
		}
	}
	_, err = set.Get("codx")
	if p := problem.Of(err); p.Code != "unknown_harness" || !slices.Equal(p.Valid, []string{"claude-code", "codex"}) {
		t.Errorf("%+v", p)
	}
}

func TestGeneric_RefusesWhatWouldNotHold(t *testing.T) {
	good := contracts.Settings{Version: "x 1", HomeVar: "X_HOME", HomeDir: ".x", Credential: "key"}
	if _, err := contracts.New(map[string]contracts.Settings{"x": good}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *contracts.Settings) string{
		"no version":             func(s *contracts.Settings) string { s.Version = ""; return "x" },
		"no home variable":       func(s *contracts.Settings) string { s.HomeVar = ""; return "x" },
		"odd home variable":      func(s *contracts.Settings) string { s.HomeVar = "X=Y"; return "x" },
		"linking":                func(s *contracts.Settings) string { s.Linking = "musl"; return "x" },
		"entry outside":          func(s *contracts.Settings) string { s.Entry = "../../bin/sh"; return "x" },
		"credential outside":     func(s *contracts.Settings) string { s.Credential = "../.ssh/id_rsa"; return "x" },
		"credential and no home": func(s *contracts.Settings) string { s.HomeDir = ""; return "x" },
		"home above":             func(s *contracts.Settings) string { s.HomeDir = ".."; return "x" },
		"relative source":        func(s *contracts.Settings) string { s.Sources = []string{"etc"}; return "x" },
		"a file outside":         func(s *contracts.Settings) string { s.Files = map[string]string{"../x": ""}; return "x" },
		"the server list":        func(s *contracts.Settings) string { s.Files = map[string]string{"mcp.json": ""}; return "x" },
		"the credential":         func(s *contracts.Settings) string { s.Files = map[string]string{"key": ""}; return "x" },
		"config":                 func(s *contracts.Settings) string { s.Config = map[string]any{"a": 1}; return "x" },
		"its name":               func(s *contracts.Settings) string { return "../x" },
	} {
		s := good
		id := spoil(&s)
		if _, err := contracts.New(map[string]contracts.Settings{id: s}); problem.CodeOf(err) != "harness_settings_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSettings_LoaderControlsCanNotBeBroughtBack(t *testing.T) {
	for _, name := range []string{"LD_PRELOAD", "GLIBC_TUNABLES", "CLAUDECODE"} {
		_, err := contracts.New(map[string]contracts.Settings{"codex": {Environment: map[string]string{name: "x"}}})
		if problem.CodeOf(err) != "harness_setting_reserved" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSources_CoverTheRealHomesWhereverTheyAre(t *testing.T) {
	set, err := contracts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{
		"codex":       {"/h/.codex/auth.json", "/h/.codex/config.toml", "/etc/codex", "/h/.gitconfig", "/h/.agents/skills"},
		"claude-code": {"/h/.claude.json", "/h/.claude/settings.json", "/etc/claude-code", "/h/.gitconfig"},
	} {
		c, err := set.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		got := c.SourcePaths("/h", c.RealHome("/h", func(string) string { return "" }))
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s does not watch %s", id, w)
			}
		}
		moved := c.RealHome("/h", func(name string) string {
			return map[string]string{c.HomeVar: "/elsewhere"}[name]
		})
		if !slices.ContainsFunc(c.SourcePaths("/h", moved), func(s string) bool { return strings.HasPrefix(s, "/elsewhere/") }) {
			t.Errorf("%s: a moved home is not watched", id)
		}
	}
}

func TestCompose_PlanArgumentsComeLastAndTheWrapperIsTheOnlyServer(t *testing.T) {
	set, err := contracts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := contracts.Input{Plan: messages.Plan{WorkspaceDir: messages.DirIdentity{Path: `/w/with "quotes" and [brackets]`}, Arguments: []string{"a", "b"}},
		Program: "/p", Overlay: "/o", Wrapper: "/wrap", WrapperArgs: []string{"--launch", "lp-1"}}
	for _, id := range set.IDs() {
		c, err := set.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Compose(in)
		if err != nil {
			t.Fatal(err)
		}
		if out.Argv[0] != "/p" || !slices.Equal(out.Argv[len(out.Argv)-2:], []string{"a", "b"}) {
			t.Errorf("%s: argv %q", id, out.Argv)
		}
		all := ""
		for _, f := range out.Files {
			all += string(f.Data)
		}
		if strings.Count(all, "/wrap") != 1 || !strings.Contains(all, "lp-1") {
			t.Errorf("%s: the wrapper is there %d times:\n%s", id, strings.Count(all, "/wrap"), all)
		}
	}
}
