// Package config reads config.toml: what the owner may set, with defaults that
// need no file.
//
//	listen = "127.0.0.1:8765"        # loopback only; port 0 takes a free one
//	strict_isolates = false          # true: no script runs unless every lockdown layer is in force
//
//	[approvals]
//	timeout = "5m"                   # unanswered requests are refused
//	presence = "auto"                # where the tray must run: "login", at a terminal of a login or a window of the desktop;
//	                                 # "program", anywhere outside of agents' units; "auto", login where there is a logind
//	terminals = []                   # further terminal emulators whose windows are yours, absolute paths
//
//	[harness.codex.config]           # merged into the harness's own configuration
//	[harness.codex.environment]      # added to its environment
//	[harness.<id>]                   # a harness of your own, see hostd/harness/contracts
package config

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

// DefaultListen is where MCP, the owner API and the portal are served.
const DefaultListen = "127.0.0.1:8765"

// Config is the file's contents with defaults filled in.
type Config struct {
	Listen         string                        `toml:"listen"`
	StrictIsolates bool                          `toml:"strict_isolates"`
	Approvals      Approvals                     `toml:"approvals"`
	Harness        map[string]contracts.Settings `toml:"harness"`
}

// Approvals are the gate's settings.
type Approvals struct {
	Timeout   Duration `toml:"timeout"`
	Presence  string   `toml:"presence"`
	Terminals []string `toml:"terminals"`
}

// Values of Approvals.Presence.
const (
	PresenceAuto    = "auto"    // PresenceLogin where there is a logind, else PresenceProgram
	PresenceLogin   = "login"   // hostd/login
	PresenceProgram = "program" // the packaged tray, outside of every launch's unit
)

// Duration is written as "90s" or "5m".
type Duration time.Duration

// UnmarshalText reads Go's notation of a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

const hint = "Mend %s, or move it away to run with the defaults."

// Load reads the file; a missing one gives the defaults. The error's code is
// config_invalid and it names the first thing that is wrong.
func Load(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, problem.Wrap(err, "config_invalid", "can't read %s", path)
	}
	c, err := Parse(b)
	if err != nil {
		return Config{}, problem.New("config_invalid", "%s: %s", path, reason(err)).WithHint(hint, path)
	}
	return c, nil
}

// Parse reads the file's contents.
func Parse(b []byte) (Config, error) {
	c := Config{Listen: DefaultListen, Approvals: Approvals{Timeout: Duration(5 * time.Minute), Presence: PresenceAuto}}
	d := toml.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, err
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return Config{}, problem.New("config_invalid", "listen is %q, which is not address:port", c.Listen)
	}
	if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && host != "localhost" {
		return Config{}, problem.New("config_invalid", "listen is %q; Sophia listens on loopback only", c.Listen)
	}
	if c.Approvals.Timeout <= 0 {
		return Config{}, problem.New("config_invalid", "approvals.timeout must be more than nothing")
	}
	if known := []string{PresenceAuto, PresenceLogin, PresenceProgram}; !slices.Contains(known, c.Approvals.Presence) {
		return Config{}, problem.New("config_invalid", "approvals.presence is %q; it may be %s", c.Approvals.Presence, strings.Join(known, ", "))
	}
	for _, path := range c.Approvals.Terminals {
		if !filepath.IsAbs(path) {
			return Config{}, problem.New("config_invalid", "approvals.terminals has %q, which is no absolute path", path)
		}
	}
	if _, err := contracts.New(c.Harness); err != nil {
		return Config{}, err
	}
	return c, nil
}

func reason(err error) string {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		row, _ := e.Position()
		return "line " + strconv.Itoa(row) + ": unknown setting " + strings.Join(e.Key(), ".")
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := bad.Position()
		return "line " + strconv.Itoa(row) + ": " + bad.Error()
	}
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p.Message
	}
	return err.Error()
}
