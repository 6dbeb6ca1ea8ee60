package contracts

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sophia/messages/problem"
)

// generic makes a contract from a table of config.toml, so that a person can
// launch an agent CLI that Sophia does not know:
//
//	[harness.mycli]
//	name       = "My CLI"
//	version    = "mycli 1.2.3"          # what `mycli --version` prints; required
//	linking    = "static"               # or "system-loader"
//	command    = "mycli"                # its name on PATH
//	entry      = "mycli"                # its path in the vendor tree
//	whole_tree = false                  # true: it runs helpers from its tree
//	home_var   = "MYCLI_HOME"           # the variable that names its configuration home; required
//	home_dir   = ".mycli"               # the real one, below your home
//	credential = "auth.json"            # the one file copied from there; "" for none
//	sources    = ["@/config.json", "/etc/mycli"]
//	arguments  = ["--mcp-config", "{overlay}/mcp.json"]
//	[harness.mycli.files]
//	"config.json" = '{"workspace": "{workspace}"}'
//
// mcp.json, with Sophia as the only server in the usual mcpServers form, is
// always written. In arguments and files {overlay}, {workspace}, {wrapper}
// and {wrapper_args_json} are filled in; arguments of the plan follow.
func generic(id string, s Settings) (Contract, error) {
	bad := func(format string, args ...any) error {
		return problem.New("harness_settings_invalid", "[harness."+id+"]: "+format, args...).
			WithHint("The fields of a harness of your own are described in the documentation of package contracts, generic.")
	}
	if !idPattern.MatchString(id) {
		return Contract{}, bad("the id must be lower-case letters, digits and dashes")
	}
	c := Contract{
		ID: id, Name: s.Name, Version: s.Version, VersionArgs: s.VersionArgs, Command: s.Command, Entry: s.Entry, WholeTree: s.WholeTree,
		HomeVar: s.HomeVar, HomeDir: s.HomeDir, Credential: s.Credential, Form: opaqueForm, DropEnv: s.DropEnv, Environment: s.Environment,
		Sources: append(slices.Clone(s.Sources), "~/.gitconfig", "~/.config/git", "/etc/gitconfig"),
	}
	if c.Name == "" {
		c.Name = id
	}
	if len(c.VersionArgs) == 0 {
		c.VersionArgs = []string{"--version"}
	}
	if c.Command == "" {
		c.Command = id
	}
	if c.Entry == "" {
		c.Entry = c.Command
	}
	switch s.Linking {
	case "static", "":
		c.Linking = Static
	case "system-loader":
		c.Linking = SystemLoader
	default:
		return Contract{}, bad("linking is %q, it can be static or system-loader", s.Linking)
	}
	switch {
	case c.Version == "":
		return Contract{}, bad("version is missing: what the program prints for %s", strings.Join(c.VersionArgs, " "))
	case c.HomeVar == "" || !varPattern.MatchString(c.HomeVar):
		return Contract{}, bad("home_var must name the variable that moves its configuration home")
	case !local(c.Entry):
		return Contract{}, bad("entry %q is not a relative path", c.Entry)
	case c.Credential != "" && (c.HomeDir == "" || !local(c.Credential) || strings.Contains(c.Credential, "/")):
		return Contract{}, bad("credential must be the name of a file in home_dir")
	case c.HomeDir != "" && !local(c.HomeDir):
		return Contract{}, bad("home_dir %q is not a path below your home", c.HomeDir)
	}
	if c.Credential != "" {
		c.Sources = append([]string{"@/" + c.Credential}, c.Sources...)
	}
	for _, src := range c.Sources {
		if !strings.HasPrefix(src, "/") && !strings.HasPrefix(src, "~/") && !strings.HasPrefix(src, "@/") {
			return Contract{}, bad("source %q must begin with /, ~/ or @/", src)
		}
	}
	for name := range s.Files {
		if !local(name) || name == "mcp.json" || name == c.Credential {
			return Contract{}, bad("file %q can't be written into the configuration home", name)
		}
	}
	if len(s.Config) > 0 {
		return Contract{}, bad("config is for the built-in harnesses, use files")
	}
	c.Compose = func(in Input) (Composition, error) { return composeGeneric(in, s) }
	return c, nil
}

var (
	idPattern  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	varPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// local: relative, clean, and not leaving its folder.
func local(p string) bool {
	return p != "" && p != "." && path.Clean(p) == p && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}

func composeGeneric(in Input, s Settings) (Composition, error) {
	args, err := json.Marshal(in.WrapperArgs)
	if err != nil {
		return Composition{}, err
	}
	fill := strings.NewReplacer("{overlay}", in.Overlay, "{workspace}", in.Plan.WorkspaceDir.Path, "{wrapper}", in.Wrapper, "{wrapper_args_json}", string(args))
	servers, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"sophia": map[string]any{
		"type": "stdio", "command": in.Wrapper, "args": in.WrapperArgs,
	}}}, "", "  ")
	if err != nil {
		return Composition{}, err
	}
	out := Composition{Files: []File{{Path: "mcp.json", Data: append(servers, '\n')}}, Argv: []string{in.Program}, Env: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		out.Files = append(out.Files, File{Path: name, Data: []byte(fill.Replace(s.Files[name]))})
	}
	for _, a := range s.Arguments {
		out.Argv = append(out.Argv, fill.Replace(a))
	}
	out.Argv = append(out.Argv, in.Plan.Arguments...)
	return out, nil
}
