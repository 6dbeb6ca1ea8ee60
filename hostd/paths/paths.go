// Package paths says where Sophia keeps things: the XDG base directories, or
// one folder when SOPHIA_HOME is set (tests, the demo, a second instance).
// With SOPHIA_HOME set nothing outside that folder is read or written.
package paths

import (
	"os"
	"path/filepath"
	"strconv"

	"sophia/messages/problem"
)

// Dirs are Sophia's four folders. Each is created with mode 0700.
type Dirs struct {
	Data    string // store, blobs, adopted harnesses, vault, owner key
	Config  string // config.toml
	State   string // logs, the store's high-water file
	Runtime string // sockets, overlays, manifests; gone after a reboot
}

// maxSocketDir leaves room for /launches/<id>/terminal.sock within the 107
// bytes of a unix socket's path (unix(7)).
const maxSocketDir = 107 - len("/launches/lp-0123456789/terminal.sock")

// Resolve finds the folders from the environment. getenv is os.Getenv.
func Resolve(getenv func(string) string) (Dirs, error) {
	if home := getenv("SOPHIA_HOME"); home != "" {
		if !filepath.IsAbs(home) {
			return Dirs{}, problem.New("home_not_absolute", "SOPHIA_HOME is %q, which is not an absolute path", home).
				WithHint("Set SOPHIA_HOME to an absolute path.")
		}
		home = filepath.Clean(home)
		d := Dirs{Data: filepath.Join(home, "data"), Config: filepath.Join(home, "config"), State: filepath.Join(home, "state"), Runtime: filepath.Join(home, "run")}
		return d, d.check("SOPHIA_HOME")
	}
	user := getenv("HOME")
	if user == "" {
		return Dirs{}, problem.New("home_unknown", "neither HOME nor SOPHIA_HOME is set").WithHint("Set HOME.")
	}
	xdg := func(name, fallback string) string {
		if v := getenv(name); filepath.IsAbs(v) { // the XDG spec says to ignore relative ones
			return filepath.Join(v, "sophia")
		}
		return filepath.Join(user, fallback, "sophia")
	}
	d := Dirs{
		Data:   xdg("XDG_DATA_HOME", ".local/share"),
		Config: xdg("XDG_CONFIG_HOME", ".config"),
		State:  xdg("XDG_STATE_HOME", ".local/state"),
	}
	run := getenv("XDG_RUNTIME_DIR")
	if run == "" {
		run = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	if _, err := os.Stat(run); err == nil {
		d.Runtime = filepath.Join(run, "sophia")
	} else { // no login session: next to the state, never under a temp folder
		d.Runtime = filepath.Join(d.State, "run")
	}
	return d, d.check("XDG_RUNTIME_DIR")
}

func (d Dirs) check(variable string) error {
	if len(d.Runtime) > maxSocketDir {
		return problem.New("runtime_path_too_long", "%s has %d characters; a unix socket's path must stay under 108", d.Runtime, len(d.Runtime)).
			WithHint("Set %s to a path of at most %d characters.", variable, maxSocketDir)
	}
	return nil
}

// Make creates the folders, mode 0700, and refuses one that someone else owns
// or can write to.
func (d Dirs) Make() error {
	for _, dir := range []string{d.Data, d.Config, d.State, d.Runtime, d.Launches()} {
		if err := MakePrivate(dir); err != nil {
			return err
		}
	}
	return nil
}

func (d Dirs) Store() string       { return filepath.Join(d.Data, "store") }
func (d Dirs) Blobs() string       { return filepath.Join(d.Data, "blobs") }
func (d Dirs) Harnesses() string   { return filepath.Join(d.Data, "harnesses") }
func (d Dirs) Vault() string       { return filepath.Join(d.Data, "vault") }
func (d Dirs) OwnerKey() string    { return filepath.Join(d.Data, "owner.key") }
func (d Dirs) WikiKey() string     { return filepath.Join(d.Data, "wiki.key") }
func (d Dirs) Bearers() string     { return filepath.Join(d.Data, "bearers") }
func (d Dirs) ConfigFile() string  { return filepath.Join(d.Config, "config.toml") }
func (d Dirs) HighWater() string   { return filepath.Join(d.State, "highwater") }
func (d Dirs) Log() string         { return filepath.Join(d.State, "sophiad.log") }
func (d Dirs) OwnerSocket() string { return filepath.Join(d.Runtime, "owner.sock") }
func (d Dirs) Broker() string      { return filepath.Join(d.Runtime, "broker.sock") }
func (d Dirs) Address() string     { return filepath.Join(d.Runtime, "address.json") }
func (d Dirs) Launches() string    { return filepath.Join(d.Runtime, "launches") }
