package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/approvals"
	"sophia/actors/connections"
	"sophia/actors/custody"
	"sophia/actors/envelope"
	"sophia/actors/launches"
	"sophia/actors/supervise"
	"sophia/actors/trays"
	"sophia/actors/writer"
	"sophia/hostd/config"
	hostconnections "sophia/hostd/connections"
	hostcustody "sophia/hostd/custody"
	"sophia/hostd/daemon"
	"sophia/hostd/doctor"
	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/launch"
	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/hostd/unit"
	"sophia/hostd/workspaces"
	"sophia/messages"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/importdoc"
	"sophia/store/tables"
)

// How long a stop may take: launchesBound for the agents, stopBound for what else
// is under way, closeBound more for the store.
const (
	launchesBound = unit.StopTimeout + 10*time.Second
	stopBound     = 20 * time.Second
	closeBound    = 5 * time.Second
)

// sophiad is a running daemon.
type sophiad struct {
	dirs    paths.Dirs
	config  config.Config
	log     *slog.Logger
	started time.Time
	address daemon.Address
	fatal   chan error       // why it can't go on; one is enough
	held    []doctor.Program // the programs that are known by their digest from now on

	public ed25519.PublicKey // the owner's
	owner  net.Listener      // the owner's socket until it is served; taken first, it keeps a second daemon out
	db     *store.DB
	texts  blobs.Dir
	root   atomic.Pointer[supervise.Tree]
	tree   *supervise.Tree

	write       store.Writer
	connections *hostconnections.Service
	workspaces  *workspaces.Service
	harnesses   *harnesses
	gate        *approvals.Gate
	hub         *trays.Hub
	launches    *launches.Service
	relays      *envelope.Directory
	host        *launch.Host
	surface     *surface
}

// open starts a daemon and returns when it serves.
func open(ctx context.Context, dirs paths.Dirs, log *slog.Logger) (d *sophiad, err error) {
	d = &sophiad{dirs: dirs, log: log, started: time.Now(), fatal: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.config, err = config.Load(dirs.ConfigFile()); err != nil {
		return d, err
	}
	if d.owner, err = ownerapi.Listen(dirs.OwnerSocket()); err != nil {
		return d, err
	}
	key, err := ownerkey.LoadOrCreate(dirs.OwnerKey())
	if err != nil {
		return d, err
	}
	d.public = key.Public().(ed25519.PublicKey)
	key.Close() // the daemon only verifies
	if err = d.openStore(); err != nil {
		return d, err
	}
	if err = d.startTree(ctx); err != nil {
		return d, err
	}
	if err = d.workspaces.Seed(ctx, d.harnesses.set); err != nil {
		return d, err
	}
	// Pages may have been edited by hand while nobody watched.
	if _, err = d.surface.vault.Rescan(ctx, d.write); err != nil {
		return d, err
	}
	return d, d.serve(ctx)
}

func (d *sophiad) openStore() (err error) {
	if d.texts, err = blobs.Open(d.dirs.Blobs()); err != nil {
		return err
	}
	d.db, err = store.Open(store.Options{Dir: d.dirs.Store(), HighWater: d.dirs.HighWater(), Tables: tables.All(), Log: d.log})
	if err != nil {
		return err
	}
	importdoc.Attach(d.db, d.texts)
	return nil
}

// sub is a part of the tree as it is now, for services that outlive its lives.
func (d *sophiad) sub(id string) func() *supervise.Tree {
	return func() *supervise.Tree {
		if root := d.root.Load(); root != nil {
			return root.Sub(id)
		}
		return nil
	}
}

// startTree starts all but the listeners: what comes later needs what comes
// earlier.
func (d *sophiad) startTree(ctx context.Context) error {
	set, err := contracts.New(d.config.Harness)
	if err != nil {
		return err
	}
	programs, err := launch.Installed()
	if err != nil {
		return err
	}
	if err := d.assemble(set, programs); err != nil {
		return err
	}
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return err
	}
	d.tree, err = supervise.Start(engine, "sophiad", supervise.Policy{
		Strategy: supervise.RestForOne, Max: 5, Within: time.Minute,
		Backoff: supervise.Backoff{Base: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5},
		Report:  d.report,
	},
		writer.Spec(d.db),
		d.surface.isolates.Spec(),
		supervise.Spec{ID: idApprovals, Tree: &supervise.TreeSpec{Policy: approvals.Policy()}},
		connections.Spec(),
		supervise.Spec{ID: idTrays, Tree: &supervise.TreeSpec{Policy: trays.Policy()}},
		custody.Spec(idCustody),
	)
	if err != nil {
		return err
	}
	d.root.Store(d.tree)
	d.gate, err = approvals.New(ctx, d.sub(idApprovals), approvals.Config{
		Store: approvalStore{d}, Notify: func(e messages.TrayEvent) { d.hub.Publish(e) }, Timeout: time.Duration(d.config.Approvals.Timeout),
	})
	if err != nil {
		return err
	}
	// What an earlier daemon left is taken up at once: that writes, and may ask.
	for _, spec := range []supervise.Spec{d.launches.Spec(), d.surface.checker.Spec(), d.host.Spec(idHarnesses)} { // nothing depends on the last two
		if _, err := d.tree.Add(spec); err != nil {
			return err
		}
	}
	return nil
}

const (
	idApprovals = "approvals"
	idTrays     = "trays"
	idCustody   = "custody"
	idHarnesses = "harnesses"
)

// assemble makes the services. They reach the tree's parts once it runs.
func (d *sophiad) assemble(set contracts.Set, programs launch.Programs) (err error) {
	d.write = writerLookup{d}
	d.connections = hostconnections.New(d.db, d.write, gateOf{d})
	d.workspaces = workspaces.New(d.db, d.write, d.texts)
	d.hub = trays.New(d.sub(idTrays), func(ctx context.Context) ([]messages.ApprovalRequest, error) { return d.gate.List(ctx) })
	verifier := harness.Verifier{Contracts: set, Scratch: filepath.Join(d.dirs.State, "witness")}
	d.harnesses = newHarnesses(set, verifier, d.dirs.Harnesses())
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	keeper := hostcustody.Keeper{Contracts: set, Kept: filepath.Join(d.dirs.Data, "credentials"), Now: time.Now}
	d.host = &launch.Host{Dirs: d.dirs, Contracts: set, Verifier: verifier, Adopter: d.harnesses.adopter, Units: unit.New(os.Getenv), Programs: programs,
		Custodian: custody.New(d.sub(idCustody), keeper), Home: home, Environ: os.Environ()}
	d.relays = d.newRelays()
	d.launches = launches.New(launches.Ports{
		Store: leaseStore{d}, Gate: gateOf{d}, Host: d.host, Connections: d.connections, Relays: d.relays,
		Planner: &launch.Planner{Workspaces: d.workspaces, Installations: d.harnesses, Verifier: verifier, Programs: programs},
	}, launches.Options{ApprovalTTL: time.Duration(d.config.Approvals.Timeout), Log: d.log})
	d.surface, err = d.newSurface(programs)
	return err
}

// report writes what the tree does to the log.
func (d *sophiad) report(e supervise.Event) {
	switch e := e.(type) {
	case supervise.Started:
	case supervise.DeadLetter: // results that came after the end of who asked for them
		d.log.Debug("supervision", "event", e.String())
	case supervise.Exited:
		if e.Reason != nil && !errors.Is(e.Reason, supervise.ErrShutdown) {
			d.log.Error("actor failed", "event", e.String())
		}
		if p, ok := errors.AsType[*supervise.PanicError](e.Reason); ok {
			d.log.Error("panic", "path", e.Path, "stack", p.Stack())
		}
	default:
		d.log.Warn("supervision", "event", e.String())
	}
}

// endLaunches ends every agent while all that its end needs is still there.
func (d *sophiad) endLaunches() {
	ctx, cancel := context.WithTimeout(context.Background(), launchesBound)
	defer cancel()
	if err := d.launches.Close(ctx); err != nil {
		d.log.Error("launches are left to the next daemon", "err", err)
	}
}

// close stops what was started, last first.
func (d *sophiad) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	var errs []error
	if d.surface != nil {
		errs = append(errs, d.surface.close(ctx))
	}
	if d.tree != nil {
		left, err := d.tree.Stop(ctx)
		errs = append(errs, err)
		if len(left) > 0 {
			d.log.Error("actors did not stop", "left", left)
		}
	}
	if d.host != nil {
		d.host.Units.Close()
	}
	if d.address.PID != 0 {
		errs = append(errs, os.Remove(d.dirs.Address()))
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.owner != nil {
		errs = append(errs, d.owner.Close())
	}
	return errors.Join(errs...)
}
