package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/launches"
	"sophia/actors/launches/lease"
	"sophia/hostd/evidence"
	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/manifest"
	"sophia/hostd/overlay"
	"sophia/hostd/paths"
	"sophia/hostd/unit"
	"sophia/messages"
	"sophia/messages/problem"
)

// Custodian lends the owner's credential files to launches and takes renewed
// ones back; *custody.Custodians is one.
type Custodian interface {
	Take(ctx context.Context, launch, harness, real string) error
	Copied(ctx context.Context, note messages.CredentialCopy) error
	GiveUp(ctx context.Context, launch, real string) error
	Return(ctx context.Context, note messages.CredentialCopy) (messages.CredentialOutcome, error)
	// Resume tells of a copy that an earlier daemon lent.
	Resume(ctx context.Context, note messages.CredentialCopy) error
	// Written are the digests of what Sophia itself wrote to a real file.
	Written(real string) ([]string, error)
}

// Host is this machine, as launches.Host wants it.
type Host struct {
	Dirs      paths.Dirs
	Contracts contracts.Set
	Verifier  harness.Verifier
	Adopter   adopt.Adopter
	Units     *unit.Manager
	Programs  Programs
	Custodian Custodian
	Home      string   // the owner's
	Environ   []string // the daemon's, of which the harness gets a scrubbed copy

	holds holds
}

const (
	envelopeSocket = "envelope.sock"
	terminalSocket = "terminal.sock"
	reportFile     = "report.json"

	backlog      = 256 << 10        // bytes of terminal output kept for a viewer to come (spec managed-launch)
	manifestLife = 30 * time.Second // from its writing to its consumption
	fastFailure  = 5 * time.Second  // a harness that ends sooner has failed to start
	failureGrace = 30 * time.Second // how long the output of such a failure can still be read
	killGrace    = unit.StopTimeout + 2*time.Second
	survivorPoll = 100 * time.Millisecond
	maxReport    = 64 << 10 // bytes
)

func (h *Host) folder(launch string) string { return filepath.Join(h.Dirs.Launches(), launch) }

// EnvelopeSocket is where the launch's envelope relay listens.
func (h *Host) EnvelopeSocket(launch string) string {
	return filepath.Join(h.folder(launch), envelopeSocket)
}

// TerminalSocket implements launches.Host.
func (h *Host) TerminalSocket(launch string) string {
	return filepath.Join(h.folder(launch), terminalSocket)
}

// Ready says whether launches can run here at all: systemd answers, and launches
// can be bound to the daemon.
func (h *Host) Ready(ctx context.Context) error {
	_, err := h.daemonUnit(ctx)
	return err
}

func (h *Host) daemonUnit(ctx context.Context) (string, error) {
	if err := h.Units.Ping(ctx); err != nil {
		return "", err
	}
	own, err := h.Units.OwnUnit(ctx)
	if err == nil && own == "" {
		// A daemon that was started from a shell: its scope binds launches to it
		// as a service would.
		own, err = h.Units.EnterScope(ctx)
	}
	return own, err
}

// Evidence implements launches.Host.
func (h *Host) Evidence(ctx context.Context, p messages.Plan) ([]messages.SourceState, error) {
	sources, err := overlay.Builder{Contracts: h.Contracts}.Sources(p.Harness, h.Home, h.Environ)
	if err != nil {
		return nil, err
	}
	return evidence.Take(ctx, sources)
}

// Start implements launches.Host.
func (h *Host) Start(ctx context.Context, s launches.StartSpec) (messages.UnitRef, error) {
	p := s.Plan
	daemon, err := h.daemonUnit(ctx)
	if err != nil {
		return messages.UnitRef{}, err
	}
	built, err := h.build(ctx, p)
	if err != nil {
		return messages.UnitRef{}, err
	}
	path := filepath.Join(h.folder(p.Launch), manifest.FileName)
	digest, err := manifest.Write(path, h.manifest(s, built))
	if err != nil {
		return messages.UnitRef{}, err
	}
	if l, ok := s.Held.(*lent); ok {
		if err := l.Recheck(ctx); err != nil {
			return messages.UnitRef{}, err
		}
	}
	return h.Units.Start(ctx, unit.Spec{
		Launch: p.Launch, Host: p.Host.Path, Manifest: path, Digest: digest, Daemon: daemon, Confine: p.Confine,
		ReadWrite: []string{p.WorkspaceDir.Path, h.folder(p.Launch)},
		ReadOnly:  []string{h.Programs.Dir, h.harnessFolder(p), h.Dirs.Broker()},
	})
}

// TakeUp implements launches.Host: the credential that an earlier daemon lent
// is on loan still.
func (h *Host) TakeUp(ctx context.Context, l messages.Lease) error {
	credential, err := h.loan(ctx, l)
	if err != nil || credential == nil {
		return err
	}
	return h.Custodian.Resume(ctx, *credential)
}

// build makes the overlay with the credential on loan.
func (h *Host) build(ctx context.Context, p messages.Plan) (overlay.Built, error) {
	builder := overlay.Builder{Contracts: h.Contracts}
	real, err := builder.CredentialSource(p.Harness, h.Home, h.Environ)
	if err != nil {
		return overlay.Built{}, err
	}
	if real != "" {
		if err := h.Custodian.Take(ctx, p.Launch, p.Harness, real); err != nil {
			return overlay.Built{}, err
		}
	}
	built, err := builder.Build(ctx, overlay.Request{
		Plan: p, LaunchDir: h.folder(p.Launch), WrapperPath: p.Wrapper.Path, EnvelopeSocket: h.EnvelopeSocket(p.Launch),
		RealHome: h.Home, Env: h.Environ,
	})
	if err == nil && built.Credential != nil {
		return built, h.Custodian.Copied(ctx, *built.Credential)
	}
	if real != "" {
		err = errors.Join(err, h.Custodian.GiveUp(ctx, p.Launch, real))
	}
	return built, err
}

// harnessFolder is all that the harness needs of its own: the tree that was
// adopted, or the program's folder.
func (h *Host) harnessFolder(p messages.Plan) string {
	if tree := h.Adopter.TreeOf(p.HarnessIdentity.Path); tree != "" {
		return tree
	}
	return filepath.Dir(p.HarnessIdentity.Path)
}

func (h *Host) manifest(s launches.StartSpec, built overlay.Built) messages.Manifest {
	p := s.Plan
	return messages.Manifest{
		Version: manifest.Version, Launch: p.Launch, Lease: p.Lease, PlanDigest: s.PlanDigest,
		Host: p.Host, Harness: p.HarnessIdentity, Wrapper: p.Wrapper, Launcher: p.Launcher, Workspace: p.WorkspaceDir,
		Argv: built.Argv, Environment: built.Env, Overlay: built.Overlay,
		Terminal: messages.TerminalSpec{Socket: h.TerminalSocket(p.Launch), TokenSHA256: s.TokenSHA256, Backlog: backlog,
			Rows: max(s.Rows, 24), Cols: max(s.Cols, 80)},
		ReportPath: filepath.Join(h.folder(p.Launch), reportFile), Expires: time.Now().Add(manifestLife).UTC(),
		FastFailureMS: int(fastFailure.Milliseconds()), GraceMS: int(failureGrace.Milliseconds()),
	}
}

// Watch implements launches.Host.
func (h *Host) Watch(ctx context.Context, launch string, u messages.UnitRef) (messages.HostReport, error) {
	for range h.Units.Watch(ctx, u) {
	}
	if err := ctx.Err(); err != nil {
		return messages.HostReport{}, err
	}
	return h.report(launch), nil
}

// report reads what the host last said. The agent can get at the file, so one
// that can't be read says nothing, like one that is missing: a zero report.
func (h *Host) report(launch string) (r messages.HostReport) {
	f, err := os.OpenFile(filepath.Join(h.folder(launch), reportFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return r
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReport))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return messages.HostReport{}
	}
	return r
}

// Stop implements launches.Host.
func (h *Host) Stop(ctx context.Context, launch string, u messages.UnitRef) error {
	if u.Name == "" {
		found, err := h.Units.Reference(ctx, unit.Name(launch))
		if problem.CodeOf(err) == "unit_missing" {
			return nil
		}
		if err != nil {
			return err
		}
		u = found
	}
	return h.Units.End(ctx, u, killGrace)
}

// Quiet implements launches.Host.
func (h *Host) Quiet(ctx context.Context, launch string, u messages.UnitRef, bound time.Duration) (string, error) {
	mark := unit.Mark{Launch: launch, Folder: h.folder(launch)}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	wait := func() ([]unit.Survivor, error) { return unit.WaitQuiet(bounded, u, mark, nil) }
	if u.Name == "" { // its start was cut off: no group was ever validated
		wait = func() ([]unit.Survivor, error) { return survivors(bounded, mark) }
	}
	alive, err := wait()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case len(alive) > 0:
		return describe(alive), nil
	}
	return "", err
}

// survivors waits until nobody carries the mark, or ctx ends.
func survivors(ctx context.Context, mark unit.Mark) ([]unit.Survivor, error) {
	tick := time.NewTicker(survivorPoll)
	defer tick.Stop()
	for {
		alive, err := unit.Survivors(mark)
		if err != nil || len(alive) == 0 {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return alive, nil
		}
	}
}

func describe(alive []unit.Survivor) string {
	var out []string
	for _, s := range alive {
		out = append(out, fmt.Sprintf("pid %d (%s): %s", s.PID, s.Command, s.Why))
	}
	return strings.Join(out, "; ")
}

// Compare implements launches.Host. The evidence comes first: a credential that
// is written back changes a source.
func (h *Host) Compare(ctx context.Context, l messages.Lease) (messages.Evidence, error) {
	var before []messages.SourceState
	if l.Evidence != nil {
		before = l.Evidence.Before
	}
	credential, err := h.loan(ctx, l)
	unknown := problem.CodeOf(err) == "unknown_harness" // removed from config.toml since
	if err != nil && !unknown {
		return messages.Evidence{}, err
	}
	var known []evidence.Known // another launch's renewed login is no tampering
	if credential != nil {
		sums, err := h.Custodian.Written(credential.Real)
		if err != nil {
			return messages.Evidence{}, err
		}
		for _, sum := range sums {
			known = append(known, evidence.Known{Path: credential.Real, SHA256: sum})
		}
	}
	ev, err := evidence.Complete(ctx, before, known...)
	if err != nil && problem.CodeOf(err) != lease.CodeEvidenceChanged {
		return ev, err
	}
	if unknown {
		ev.Credential = messages.CredentialUndecided
	}
	if credential == nil {
		return ev, nil
	}
	out, err := h.Custodian.Return(ctx, *credential)
	ev.Credential = out.Outcome
	return ev, err
}

// loan is the launch's copy of the owner's credential, nil when it has none. The
// note about it lies within the agent's reach: where the credential goes back to
// follows from the plan, and a false digest decides no more than which of the
// two contents is kept. An agent that deletes its note does not keep its loan.
func (h *Host) loan(ctx context.Context, l messages.Lease) (*messages.CredentialCopy, error) {
	real, err := overlay.Builder{Contracts: h.Contracts}.CredentialSource(l.Plan.Harness, h.Home, h.Environ)
	if err != nil || real == "" {
		return nil, err
	}
	c, err := h.Contracts.Get(l.Plan.Harness)
	if err != nil {
		return nil, err
	}
	out := &messages.CredentialCopy{Launch: l.Launch, Harness: c.ID, Real: real, Copy: filepath.Join(h.folder(l.Launch), overlay.Name, c.Credential)}
	if note, err := overlay.Credential(h.folder(l.Launch)); err == nil && note != nil {
		out.SHA256 = note.SHA256
		return out, nil
	}
	if _, err := os.Lstat(out.Copy); errors.Is(err, fs.ErrNotExist) {
		return nil, h.Custodian.GiveUp(ctx, l.Launch, real)
	}
	return out, nil
}

// Remove implements launches.Host.
func (h *Host) Remove(ctx context.Context, launch string) error {
	h.Units.Release(ctx, unit.Name(launch))
	return overlay.Remove(h.folder(launch))
}

// Strip implements launches.Host.
func (h *Host) Strip(_ context.Context, l messages.Lease) error {
	c, err := h.Contracts.Get(l.Plan.Harness)
	if err != nil || c.Credential == "" {
		return nil // what is not known any more has been compared while it was
	}
	return overlay.RemoveCredential(h.folder(l.Launch), c.Credential)
}

// Folders implements launches.Host.
func (h *Host) Folders() ([]string, error) {
	entries, err := os.ReadDir(h.Dirs.Launches())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}
