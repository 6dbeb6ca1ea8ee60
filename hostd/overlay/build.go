package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness/contracts"
	"sophia/hostd/overlay/beneath"
	"sophia/messages"
	"sophia/messages/problem"
)

// Names in a launch's folder.
const (
	Name           = "overlay"
	credentialFile = "credential.json"
	homeDir        = "home"
	tempDir        = "temp"
)

// Bounds of what is read of the owner's files, bytes.
const (
	maxCredential = 1 << 20
	maxState      = 64 << 20 // ~/.claude.json holds histories
)

// Builder builds overlays by the contracts of this installation.
type Builder struct{ Contracts contracts.Set }

// Request is one overlay to build. LaunchDir is the launch's folder, made here
// if it is missing; RealHome the owner's home; Env the environment that the
// harness would inherit ("NAME=value").
type Request struct {
	Plan           messages.Plan
	LaunchDir      string
	WrapperPath    string
	EnvelopeSocket string
	RealHome       string
	Env            []string
}

// Built is an overlay that is ready: where it is, how to start the harness
// with it.
type Built struct {
	Overlay    string
	Argv       []string // argv[0] included
	Env        map[string]string
	Credential *messages.CredentialCopy // nil when the harness has none
}

// LaunchVariable marks the processes of a launch; its value is the launch's id.
const LaunchVariable = "SOPHIA_LAUNCH"

// Build makes the overlay. What can't be completed is removed again.
// Errors: overlay_exists, overlay_under_temp, overlay_not_private,
// credential_unreadable, harness_setting_reserved, and unknown_harness.
func (b Builder) Build(ctx context.Context, r Request) (Built, error) {
	c, err := b.Contracts.Get(r.Plan.Harness)
	if err != nil {
		return Built{}, err
	}
	if err := ctx.Err(); err != nil {
		return Built{}, err
	}
	if err := checkPlace(r); err != nil {
		return Built{}, err
	}
	launch, err := openLaunch(r.LaunchDir)
	if err != nil {
		return Built{}, err
	}
	defer launch.Close()
	dir, err := launch.Mkdir(Name)
	if errors.Is(err, fs.ErrExist) {
		return Built{}, problem.Wrap(err, "overlay_exists", "launch %s has a configuration home already", r.Plan.Launch).
			WithHint("A launch is started once. Start a new one.")
	}
	if err != nil {
		return Built{}, failed(err)
	}
	defer dir.Close()
	built, err := b.fill(c, launch, dir, r)
	if err != nil {
		// The first error is what the owner needs; a leftover is found by its
		// launch having ended.
		_ = launch.Remove(Name)
		_ = launch.Remove(credentialFile)
		return Built{}, err
	}
	return built, nil
}

func (b Builder) fill(c contracts.Contract, launch, dir *beneath.Dir, r Request) (Built, error) {
	at := filepath.Join(filepath.Clean(r.LaunchDir), Name)
	realHome := c.RealHome(r.RealHome, func(name string) string { return lookup(r.Env, name) })
	out := Built{Overlay: at}

	for _, name := range []string{homeDir, tempDir} {
		if err := dir.MkdirAll(name); err != nil {
			return Built{}, failed(err)
		}
	}
	in := contracts.Input{
		Plan: r.Plan, Program: r.Plan.HarnessIdentity.Path, Overlay: at, Home: r.RealHome, Temp: filepath.Join(at, tempDir),
		Wrapper: r.WrapperPath, WrapperArgs: []string{"--launch", r.Plan.Launch, "--socket", r.EnvelopeSocket},
	}
	if r.Plan.Isolated {
		in.Home = filepath.Join(at, homeDir)
	}
	if c.State != "" {
		// Missing or unreadable restates nothing, and the harness asks again.
		in.State, _ = readFile(strings.Replace(c.State, "~", r.RealHome, 1), maxState)
	}
	composed, err := c.Compose(in)
	if err != nil {
		return Built{}, err
	}
	for _, f := range composed.Files {
		if err := dir.MkdirAll(path.Dir(f.Path)); err != nil {
			return Built{}, failed(err)
		}
		if err := dir.Create(f.Path, f.Data); err != nil {
			return Built{}, failed(err)
		}
	}
	if c.Credential != "" {
		if out.Credential, err = copyCredential(c, launch, dir, r.Plan.Launch, realHome, at); err != nil {
			return Built{}, err
		}
	}
	out.Argv = composed.Argv
	out.Env = environment(c, r, in, composed)
	return out, dir.Check()
}

// environment is the scrubbed inheritance, then the owner's additions, then
// what the contract and the launch need, which win.
func environment(c contracts.Contract, r Request, in contracts.Input, composed contracts.Composition) map[string]string {
	env := c.Scrub(r.Env, r.Plan.Isolated)
	set := func(m map[string]string) {
		for k, v := range m {
			env[k] = v
		}
	}
	for name, fallback := range map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8"} {
		if env[name] == "" || name == "TERM" && env[name] == "dumb" {
			env[name] = fallback
		}
	}
	set(c.Environment)
	set(composed.Env)
	set(map[string]string{"HOME": in.Home, "TMPDIR": in.Temp, LaunchVariable: r.Plan.Launch})
	if c.HomeVar != "" {
		env[c.HomeVar] = in.Overlay
	}
	return env
}

// Sources are the owner's real configuration files and folders that the harness
// could read: what evidence is taken of.
func (b Builder) Sources(harness, home string, env []string) ([]string, error) {
	c, err := b.Contracts.Get(harness)
	if err != nil {
		return nil, err
	}
	return c.SourcePaths(home, c.RealHome(home, func(name string) string { return lookup(env, name) })), nil
}

// CredentialSource is the owner's own file that Build would copy, with links
// resolved; "" for a harness without a credential.
func (b Builder) CredentialSource(harness, home string, env []string) (string, error) {
	c, err := b.Contracts.Get(harness)
	if err != nil || c.Credential == "" {
		return "", err
	}
	return realCredential(c, c.RealHome(home, func(name string) string { return lookup(env, name) })), nil
}

func realCredential(c contracts.Contract, realHome string) string {
	source := filepath.Join(realHome, c.Credential)
	if resolved, err := filepath.EvalSymlinks(source); err == nil {
		return resolved // dotfile managers link it
	}
	return source
}

// copyCredential copies the one file and notes where it came from. A missing
// one is noted as well: a login inside the launch can then find its way back.
func copyCredential(c contracts.Contract, launch, dir *beneath.Dir, id, realHome, at string) (*messages.CredentialCopy, error) {
	source := realCredential(c, realHome)
	note := &messages.CredentialCopy{Launch: id, Harness: c.ID, Real: source, Copy: filepath.Join(at, c.Credential)}
	b, err := readFile(source, maxCredential)
	defer clear(b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, problem.Wrap(err, "credential_unreadable", "the credential of %s can't be copied", c.Name).
			WithHint("Log in again with %s itself, and see that %s is a file of yours.", c.Command, source)
	default:
		sum := sha256.Sum256(b)
		note.SHA256 = hex.EncodeToString(sum[:])
		if err := dir.Create(c.Credential, b); err != nil {
			return nil, failed(err)
		}
	}
	text, err := json.Marshal(note)
	if err != nil {
		return nil, failed(err)
	}
	if err := launch.Create(credentialFile, text); err != nil {
		return nil, failed(err)
	}
	return note, nil
}

// Credential reads the note that Build left in a launch's folder. nil without
// an error: that launch has none.
func Credential(launchDir string) (*messages.CredentialCopy, error) {
	launch, err := beneath.Open(launchDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	defer launch.Close()
	b, err := launch.Read(credentialFile, 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	note := new(messages.CredentialCopy)
	if err := json.Unmarshal(b, note); err != nil {
		return nil, failed(err)
	}
	return note, nil
}

// readFile reads a regular file of this user's, or root's, of at most max bytes.
func readFile(name string, max int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, beneath.ErrRegular
	}
	if int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return nil, beneath.ErrForeign
	}
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(b)) > max {
		clear(b)
		return nil, beneath.ErrTooLarge
	}
	return b, err
}

func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
