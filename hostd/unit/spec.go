package unit

import (
	"path/filepath"
	"regexp"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"sophia/messages/problem"
)

// DaemonUnit is the unit that sophiad runs as.
const DaemonUnit = "sophia-daemon.service"

// StopTimeout is how long systemd lets the processes of a unit react to
// SIGTERM before it kills them: ten seconds, from the specification.
const StopTimeout = 10 * time.Second

// Confinement profiles.
const (
	Standard = "standard" // the unit of the specification
	Strict   = "strict"   // and the file system, users and personality shut away
)

// Marker is the environment variable that every process of a launch inherits
// from its harness. Processes that left the control group are found by it.
const Marker = "SOPHIA_LAUNCH"

// Spec is one launch's unit.
type Spec struct {
	Launch   string // lp-…
	Host     string // absolute path of sophia-host
	Manifest string // absolute path of the manifest
	Digest   string // SHA-256 of the manifest, hex
	Daemon   string // unit that this one is bound to; "" when the daemon runs in none
	Confine  string // Standard or Strict

	// Under Strict home folders are empty and the system is read-only. These
	// paths are bound in at their own place, so that device and inode stay what
	// the manifest names.
	ReadWrite []string // workspace, launch folder
	ReadOnly  []string // the programs' folder, the harness's, the broker's socket
}

var (
	launchID = regexp.MustCompile(`^lp-[0-9a-f]{6,10}$`)
	hex256   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,240}\.(service|scope)$`)
)

// Name is the name of a launch's unit.
func Name(launch string) string { return "sophia-launch-" + launch + ".service" }

func (s Spec) check() error {
	bad := func(format string, args ...any) error {
		return problem.New("unit_spec_invalid", format, args...).WithHint("This is a fault of Sophia: nothing was started.")
	}
	switch {
	case !launchID.MatchString(s.Launch):
		return bad("%q is not a launch id", s.Launch)
	case !filepath.IsAbs(s.Host) || !filepath.IsAbs(s.Manifest):
		return bad("host %q and manifest %q must be absolute paths", s.Host, s.Manifest)
	case !hex256.MatchString(s.Digest):
		return bad("%q is not a manifest digest", s.Digest)
	case s.Daemon != "" && !unitName.MatchString(s.Daemon):
		return bad("%q is not a unit's name", s.Daemon)
	case s.Confine != Standard && s.Confine != Strict:
		return problem.New("confinement_unknown", "There is no confinement %q", s.Confine).WithValid(Standard, Strict)
	}
	for _, p := range append(append([]string{}, s.ReadWrite...), s.ReadOnly...) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return bad("%q can't be bound: not a clean absolute path", p)
		}
	}
	return nil
}

// Properties are the unit's properties as StartTransientUnit takes them.
func (s Spec) Properties() ([]sd.Property, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	p := []sd.Property{
		prop("Description", "Sophia agent "+s.Launch),
		prop("Type", "exec"),
		prop("Restart", "no"),
		prop("KillMode", "control-group"),
		prop("TimeoutStopUSec", uint64(StopTimeout/time.Microsecond)),
		prop("CollectMode", "inactive-or-failed"),
		prop("UMask", uint32(0o077)),
		prop("LimitCORE", uint64(0)),
		prop("LimitCORESoft", uint64(0)),
		prop("NoNewPrivileges", true),
		sd.PropExecStart([]string{s.Host, s.Manifest, s.Digest}, false),
	}
	if s.Daemon != "" {
		p = append(p, prop("BindsTo", []string{s.Daemon}), prop("After", []string{s.Daemon}))
	}
	if s.Confine == Strict {
		p = append(p, strict...)
		if b := binds(s.ReadWrite); len(b) > 0 {
			p = append(p, prop("BindPaths", b))
		}
		if b := binds(s.ReadOnly); len(b) > 0 {
			p = append(p, prop("BindReadOnlyPaths", b))
		}
	}
	return p, nil
}

// strict is the confinement under which Codex 0.147.0 and Claude Code 2.1.222
// both completed tool turns on systemd 252. PrivateUsers comes first in
// importance: without it a user manager of that version silently ignores all
// that needs mounts. MemoryDenyWriteExecute is not here: it crashes Node.
var strict = []sd.Property{
	prop("PrivateUsers", true),
	prop("PrivateTmp", true),
	prop("ProtectHome", "tmpfs"),
	prop("ProtectSystem", "strict"),
	prop("ProtectControlGroups", true),
	prop("ProtectKernelTunables", true),
	prop("LockPersonality", true),
	prop("RestrictSUIDSGID", true),
	prop("SystemCallArchitectures", []string{"native"}),
	prop("KeyringMode", "private"),
}

// bind is one entry of BindPaths: a(ssbt).
type bind struct {
	Source, Destination string
	IgnoreMissing       bool
	Flags               uint64
}

const recursive = 0x4000 // MS_REC

func binds(paths []string) []bind {
	var b []bind
	for _, p := range paths {
		b = append(b, bind{Source: p, Destination: p, Flags: recursive})
	}
	return b
}

func prop(name string, value any) sd.Property {
	return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
}
