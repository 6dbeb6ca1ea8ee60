package contracts

import (
	"maps"
	"slices"
	"strings"

	"sophia/messages/problem"
)

// Settings is one [harness.<id>] table of config.toml. For a built-in harness
// only Config and Environment are read; for any other id it is the whole
// contract, see generic.go.
type Settings struct {
	// Config is merged into the harness's own configuration file: config.toml
	// of Codex, settings.json of Claude Code. What Sophia sets is refused.
	Config map[string]any `toml:"config"`
	// Environment is added to the harness's environment.
	Environment map[string]string `toml:"environment"`

	Name        string            `toml:"name"`
	Version     string            `toml:"version"`
	VersionArgs []string          `toml:"version_args"`
	Linking     string            `toml:"linking"`
	Command     string            `toml:"command"`
	Entry       string            `toml:"entry"`
	WholeTree   bool              `toml:"whole_tree"`
	HomeVar     string            `toml:"home_var"`
	HomeDir     string            `toml:"home_dir"`
	Credential  string            `toml:"credential"`
	Sources     []string          `toml:"sources"`
	DropEnv     []string          `toml:"drop_env"`
	Arguments   []string          `toml:"arguments"`
	Files       map[string]string `toml:"files"`
}

// Set is the contracts of this installation, by id.
type Set struct{ byID map[string]Contract }

// New joins the built-in contracts with the owner's settings.
func New(settings map[string]Settings) (Set, error) {
	s := Set{byID: map[string]Contract{
		"codex":       codex(settings["codex"]),
		"claude-code": claudeCode(settings["claude-code"]),
	}}
	for id, c := range s.byID {
		c.Environment = settings[id].Environment
		s.byID[id] = c
	}
	for _, id := range slices.Sorted(maps.Keys(settings)) {
		if _, builtin := s.byID[id]; builtin {
			continue
		}
		c, err := generic(id, settings[id])
		if err != nil {
			return Set{}, err
		}
		s.byID[id] = c
	}
	for id, c := range s.byID {
		for name := range c.Environment {
			if dropped(name, c.DropEnvAlways()) {
				return Set{}, problem.New("harness_setting_reserved", "config.toml sets the variable %s for %s, which never reaches a harness", name, id).
					WithHint("Remove %s from [harness.%s.environment].", name, id)
			}
		}
	}
	return s, nil
}

// Get returns a contract, or unknown_harness.
func (s Set) Get(id string) (Contract, error) {
	c, ok := s.byID[id]
	if !ok {
		return Contract{}, problem.New("unknown_harness", "there is no harness called %q", id).WithValid(s.IDs()...)
	}
	return c, nil
}

// IDs are the known ids, sorted.
func (s Set) IDs() []string { return slices.Sorted(maps.Keys(s.byID)) }

// RealHome is the harness's real configuration home: HomeVar where it is set
// to an absolute path, else HomeDir below the owner's home. "" when it has none.
func (c Contract) RealHome(home string, getenv func(string) string) string {
	if c.HomeVar != "" {
		if v := getenv(c.HomeVar); strings.HasPrefix(v, "/") {
			return v
		}
	}
	if c.HomeDir == "" {
		return ""
	}
	return home + "/" + c.HomeDir
}

// SourcePaths are Sources with ~ and @ filled in.
func (c Contract) SourcePaths(home, configHome string) []string {
	var out []string
	for _, s := range c.Sources {
		switch {
		case strings.HasPrefix(s, "~/"):
			s = home + s[1:]
		case strings.HasPrefix(s, "@/"):
			if configHome == "" {
				continue
			}
			s = configHome + s[1:]
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
