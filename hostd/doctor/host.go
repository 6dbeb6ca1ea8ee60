package doctor

import (
	"fmt"
	"strconv"
)

// Folder is one of Sophia's folders as it was found.
type Folder struct {
	Name    string // data, config, state, runtime
	Path    string
	Missing bool
	Problem string // why it can't be used, "" when it can
	Mend    string
}

// Folders judges Sophia's folders: each belongs to this user alone.
func Folders(all []Folder) []Check {
	var out []Check
	for _, f := range all {
		name := "folder." + f.Name
		switch {
		case f.Missing:
			out = append(out, warn(name, "Run: sophia up", "%s is not there yet", f.Path))
		case f.Problem != "":
			out = append(out, fail(name, f.Mend, "%s", f.Problem))
		default:
			out = append(out, ok(name, "%s, for you alone", f.Path))
		}
	}
	return out
}

// maxSocketPath is sun_path of unix(7) less the final zero, in bytes.
const maxSocketPath = 107

// longestSocket is the longest name below the runtime folder.
const longestSocket = "/launches/lp-0123456789/terminal.sock"

// SocketPath judges the runtime folder's length: every socket below it must
// fit into a socket's address.
func SocketPath(runtime string) Check {
	longest := len(runtime) + len(longestSocket)
	if longest > maxSocketPath {
		return fail("socket_paths", "Set SOPHIA_HOME or XDG_RUNTIME_DIR to a shorter path.",
			"%s is so long that socket paths below it would have %d bytes; %d is the most", runtime, longest, maxSocketPath)
	}
	return ok("socket_paths", "at most %d bytes of %d", longest, maxSocketPath)
}

// Key is the owner's key file.
type Key struct {
	Path    string
	Missing bool
	Problem string
	Mend    string
}

// OwnerKey judges the key that the owner's programs sign with.
func OwnerKey(k Key) Check {
	switch {
	case k.Missing:
		return warn("owner_key", "Run: sophia up", "%s is not there yet", k.Path)
	case k.Problem != "":
		return fail("owner_key", k.Mend, "%s", k.Problem)
	}
	return ok("owner_key", "%s", k.Path)
}

// Config judges config.toml; problem is what is wrong with it.
func Config(path string, missing bool, problem string) Check {
	switch {
	case problem != "":
		return fail("config", "Mend it, or move it away to run with the defaults.", "%s", problem)
	case missing:
		return ok("config", "no %s: the defaults hold", path)
	}
	return ok("config", "%s", path)
}

// Program is one of Sophia's executables.
type Program struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256,omitempty"`  // hex
	Problem string `json:"problem,omitempty"` // why it can't be used
}

// without says what a missing program costs.
var without = map[string]string{
	"sophia":         "there is no command line",
	"sophiad":        "there is no daemon",
	"sophia-host":    "no agent can be launched",
	"sophia-wrapper": "no agent can be connected or launched",
	"sophia-isolate": "sophia.execute_code does not run",
	"sophia-compile": "sophia.execute_code does not run",
	"sophia-tray":    "nothing can be approved",
}

// ProgramNames are all of Sophia's programs.
var ProgramNames = []string{"sophia", "sophiad", "sophia-host", "sophia-wrapper", "sophia-isolate", "sophia-compile", "sophia-tray"}

// Programs judges the executables in folder, and compares them with those that
// a running daemon takes for genuine; held is empty when none runs.
func Programs(folder string, found, held []Program) []Check {
	genuine := map[string]string{}
	for _, p := range held {
		genuine[p.Name] = p.SHA256
	}
	var out []Check
	for _, p := range found {
		name := "program." + p.Name
		digest := p.SHA256[:min(12, len(p.SHA256))]
		switch {
		case p.Problem != "":
			out = append(out, fail(name, "Install Sophia again; in its checkout: ./justw build", "%s, so %s", p.Problem, without[p.Name]))
		case genuine[p.Name] != "" && genuine[p.Name] != p.SHA256:
			out = append(out, warn(name, "Run: sophia down, then sophia up. That ends running agents.",
				"%s in %s is another build than the one that the daemon knows, which will refuse it", digest, folder))
		default:
			out = append(out, ok(name, "sha256 %s in %s", digest, folder))
		}
	}
	return out
}

// Systemd is the user's service manager as it was found.
type Systemd struct {
	Problem string // it does not answer
	Version string
	Bus     bool // reached over the session bus, not only directly
	Linger  *bool
	User    string
}

// Manager judges the systemd user manager, the session bus and lingering.
func Manager(s Systemd) []Check {
	if s.Problem != "" {
		return []Check{warn("systemd", "Log in through a session with a systemd user manager (a desktop, or ssh with pam_systemd), or run: loginctl enable-linger",
			"%s. The daemon runs in the foreground only, and no agent can be launched", s.Problem)}
	}
	out := []Check{ok("systemd", "the user manager answers, version %s", s.Version)}
	if s.Bus {
		out = append(out, ok("dbus", "the session bus has it"))
	} else {
		out = append(out, warn("dbus", "Install dbus-user-session, or start a session bus at $XDG_RUNTIME_DIR/bus.",
			"no session bus: systemd is reached directly, the end of a unit may be missed while Sophia is not connected, and there are no desktop notifications"))
	}
	switch {
	case s.Linger == nil:
		out = append(out, warn("lingering", "Run: loginctl show-user --property=Linger", "it can't be told whether your services outlive your sessions"))
	case !*s.Linger:
		out = append(out, warn("lingering", "Run: loginctl enable-linger "+s.User, "off: the daemon and its agents end when you log out"))
	default:
		out = append(out, ok("lingering", "on: the daemon stays when you log out"))
	}
	return out
}

// Groups is the control-group tree as it was found.
type Groups struct {
	Mount   string // of the version 2 tree, "" when there is none
	Empty   bool   // no group is there yet that could be read
	Events  bool   // cgroup.events can be read
	Kill    bool   // cgroup.kill is there (Linux 5.14)
	Problem string
}

// ControlGroups judges whether the end of a launch can be proven.
func ControlGroups(g Groups) Check {
	const name = "control_groups"
	switch {
	case g.Mount == "":
		return fail(name, "Mount it: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified; or boot with systemd.unified_cgroup_hierarchy=1",
			"there is no version 2 tree, so no launch can be proven to have ended (%s)", g.Problem)
	case g.Empty:
		return ok(name, "version 2 at %s, without a group yet", g.Mount)
	case !g.Events:
		return fail(name, "See that "+g.Mount+" is readable and not hidden by the container.",
			"cgroup.events can't be read below %s, so no launch can be proven to have ended (%s)", g.Mount, g.Problem)
	case !g.Kill:
		return warn(name, "Linux 5.14 has it.", "version 2 at %s without cgroup.kill: stubborn processes are killed one by one", g.Mount)
	}
	return ok(name, "version 2 at %s", g.Mount)
}

// Strict judges whether systemd can confine an agent. problem is why its units get
// no file tree of their own, "" when they do.
func Strict(problem string) Check {
	const name = "confine.strict"
	if problem != "" {
		return warn(name, "As root: mkdir -m 755 /run/systemd/unit-root (systemd makes it at boot; containers may lack it)",
			"no agent can be launched with --confine strict: %s", problem)
	}
	return ok(name, "systemd can give an agent a file tree of its own")
}

// Disk is a file system that Sophia writes to. Sizes in bytes.
type Disk struct {
	Name     string // data, runtime
	Path     string
	Free     uint64 // for this user
	ReadOnly bool
	Problem  string
}

// Bounds of free space in bytes. An adopted Codex has 313 MB, and badger stops
// writing when it can't make its next files (64 MB and more).
const (
	dataLow, dataFull       = 1 << 30, 128 << 20
	runtimeLow, runtimeFull = 64 << 20, 4 << 20
)

// Disks judges free space.
func Disks(all []Disk) []Check {
	var out []Check
	for _, d := range all {
		name := "disk." + d.Name
		low, full := uint64(dataLow), uint64(dataFull)
		if d.Name == "runtime" {
			low, full = runtimeLow, runtimeFull
		}
		switch {
		case d.Problem != "":
			out = append(out, fail(name, "See that "+d.Path+" is mounted.", "%s", d.Problem))
		case d.ReadOnly:
			out = append(out, fail(name, "Mount it for writing, or move Sophia with SOPHIA_HOME.", "%s is mounted read-only", d.Path))
		case d.Free < full:
			out = append(out, fail(name, "Make room there.", "%s is left at %s: writes will fail soon", size(d.Free), d.Path))
		case d.Free < low:
			out = append(out, warn(name, "Make room there.", "%s is left at %s: adopting a harness may not succeed", size(d.Free), d.Path))
		default:
			out = append(out, ok(name, "%s free at %s", size(d.Free), d.Path))
		}
	}
	return out
}

// size is a number of bytes as a person reads it.
func size(n uint64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatUint(n, 10) + " B"
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[prefix])
}

// Address is where the daemon listens, or is to listen.
type Address struct {
	Listen  string // host:port, from the configuration or the daemon
	Running bool   // a daemon says that it listens there
	Answers bool   // somebody does
	Problem string
}

// Listening judges the loopback address.
func Listening(a Address) Check {
	const name = "listen"
	switch {
	case a.Running && a.Answers:
		return ok(name, "%s answers", a.Listen)
	case a.Running:
		return fail(name, "Run: sophia down, then sophia up. If that does not help, look at the daemon's log.",
			"the daemon says that it listens at %s, and nobody answers there (%s)", a.Listen, a.Problem)
	case a.Problem != "":
		return fail(name, "Stop the program that has it (see: ss -ltnp), or set another address in config.toml: listen = \"127.0.0.1:0\" takes a free one.",
			"%s can't be used: %s", a.Listen, a.Problem)
	}
	return ok(name, "%s is free", a.Listen)
}
