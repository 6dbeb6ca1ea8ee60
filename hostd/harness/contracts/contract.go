package contracts

import (
	"time"

	"sophia/messages"
)

// Linking is how a harness's program may be linked.
type Linking int

const (
	// Static: no program interpreter and no needed library. A static-pie with
	// a dynamic section is static in this sense.
	Static Linking = iota
	// SystemLoader: the standard loader of this machine and libraries found by
	// name on its standard path; nothing that redirects the search.
	SystemLoader
	// AnyLinking: no rule. For Sophia's own programs, whose digest is pinned.
	AnyLinking
)

// String is the name that config.toml uses.
func (l Linking) String() string {
	switch l {
	case Static:
		return "static"
	case SystemLoader:
		return "system-loader"
	}
	return "any"
}

// Contract is one harness.
type Contract struct {
	ID   string // codex
	Name string // OpenAI Codex

	Version     string   // what the version arguments must print, exactly, without the newline
	VersionArgs []string // {"--version"}
	Linking     Linking

	// Command is its name on PATH; Launchers are globs, relative to the folder
	// of what PATH leads to, under which the program itself lies when that is
	// a launcher script. Entry is the program's path in the vendor tree.
	// WholeTree: the program runs helpers from its tree, so adopting takes all
	// of it; otherwise the program alone.
	Command   string
	Launchers []string
	Entry     string
	WholeTree bool

	HomeVar string // CODEX_HOME: names the configuration home
	HomeDir string // .codex: the real one, below the owner's home, when HomeVar is not set

	// Credential is the one file copied from the real configuration home, ""
	// for none. Form reads what it is worth.
	Credential string
	Form       func(b []byte) Form

	// State is a file of the real home ("~/…") of which Compose restates
	// decisions; "" for none.
	State string

	// Sources are the real configuration files and folders that the harness
	// could read: absolute, "~/…" for the owner's home, "@/…" for the real
	// configuration home.
	Sources []string

	// DropEnv are names, or prefixes ending in *, that never reach the harness.
	DropEnv []string

	// Compose gives the contents of the launch's configuration home.
	Compose func(Input) (Composition, error)

	// Environment is the owner's addition to every launch of this harness.
	Environment map[string]string
}

// Form is what a credential file is worth.
type Form struct {
	// Usable: well-formed and not blank, so that it may replace another one.
	Usable bool
	// Blank: well-formed, but logged out. Never written back.
	Blank bool
	// Expires is when the access part runs out; zero when it does not say.
	Expires time.Time
}

// Input is what a composition depends on.
type Input struct {
	Plan        messages.Plan
	Program     string   // absolute path of the harness's program
	Overlay     string   // absolute path of the launch's configuration home
	Home        string   // HOME of the harness
	Temp        string   // TMPDIR of the harness
	Wrapper     string   // absolute path of sophia-wrapper
	WrapperArgs []string // its arguments: the launch's id and a socket, no secret
	State       []byte   // contents of Contract.State, nil when missing
}

// Composition is a configuration home, an argument vector and the variables
// that go with them.
type Composition struct {
	Files []File
	Argv  []string // argv[0] included
	Env   map[string]string
}

// File is one synthesized file, mode 0600.
type File struct {
	Path string // relative to the overlay, with slashes
	Data []byte
}
