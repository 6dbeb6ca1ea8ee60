package launches

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Options are the times and sinks of the launches.
type Options struct {
	ApprovalTTL time.Duration // how long the owner has to answer; default 5 min
	QuietBound  time.Duration // how long the gate waits before it says unquiet; default 15 s
	ProofBound  time.Duration // from the unit's start to the wrapper's proof; default 60 s
	// How often the actors of one launch may fail before the launch is given up.
	Restarts      int           // default 5
	RestartWindow time.Duration // default 1 min
	Backoff       supervise.Backoff
	Log           *slog.Logger

	Clock  func() time.Time // the wall's; default time.Now
	Random io.Reader        // for the attach tokens; default crypto/rand
}

func (o Options) withDefaults() Options {
	if o.ApprovalTTL == 0 {
		o.ApprovalTTL = 5 * time.Minute
	}
	if o.QuietBound == 0 {
		o.QuietBound = 15 * time.Second
	}
	if o.ProofBound == 0 {
		o.ProofBound = time.Minute
	}
	if o.Restarts == 0 {
		o.Restarts, o.RestartWindow = 5, time.Minute
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Ports are what the launches need of the rest.
type Ports struct {
	Store       Store
	Gate        Gate
	Planner     Planner
	Host        Host
	Connections Connections
	Relays      Relays
}

// Service is the launches of a daemon. Make it with New and start its Spec.
type Service struct {
	p       Ports
	o       Options
	tree    atomic.Pointer[supervise.Tree] // the current life of the subtree
	open    atomic.Bool                    // what was left is taken up, new launches may come
	closing atomic.Bool                    // Close was called
}

// New makes the service. It works once its Spec has started.
func New(p Ports, o Options) *Service { return &Service{p: p, o: o.withDefaults()} }

// Propose compiles the plan, stores the lease and asks the owner. It returns
// when the lease is pending_trusted_presence.
func (s *Service) Propose(ctx context.Context, o Order) (messages.Lease, error) {
	switch {
	case s.closing.Load():
		return messages.Lease{}, errStopping
	case !s.open.Load():
		return messages.Lease{}, errStarting
	}
	why := "launch proposed"
	if o.Resumes != "" {
		var err error
		if o, err = s.resumed(ctx, o); err != nil {
			return messages.Lease{}, err
		}
		why += ", resumes " + o.Resumes
	}
	o.Launch, o.Lease = newID("lp-"), newID("ls-")
	plan, err := s.p.Planner.Compile(ctx, o)
	if err != nil {
		return messages.Lease{}, err
	}
	now := time.Now()
	l := messages.Lease{
		ID: o.Lease, Launch: o.Launch, State: messages.LeaseProposed, Plan: plan, PlanDigest: lease.Digest(plan), Updated: now,
		History: []messages.LeaseStep{{State: messages.LeaseProposed, At: now}},
	}
	if err := s.p.Store.PutLease(ctx, l, why); err != nil {
		return messages.Lease{}, err
	}
	if err := s.begin(l, &o, lease.Submitted{}); err != nil {
		p := problem.Of(err)
		refused, _, _ := lease.Step(l, lease.Refused{Code: p.Code, Reason: p.Message}, time.Now())
		return messages.Lease{}, errors.Join(err, s.p.Store.PutLease(context.WithoutCancel(ctx), refused, "launch refused"))
	}
	return s.Wait(ctx, o.Launch, messages.LeaseProposed)
}

// begin starts a launch's subtree with its first event.
func (s *Service) begin(l messages.Lease, o *Order, first lease.Event) error {
	tree := s.tree.Load()
	if tree == nil {
		return errStarting
	}
	if _, err := tree.Add(s.subtree(l, o, first)); err != nil && !errors.Is(err, supervise.ErrExists) {
		return problem.Wrap(err, "launch_not_started", "the launch's actors did not start")
	}
	return nil
}

var (
	errStarting = problem.New("launches_starting", "launches of an earlier daemon are still being taken up").WithHint("Try again in a moment.")
	errStopping = problem.New("launches_stopping", "the daemon is stopping, and its agents with it").WithHint("Start it again with: sophia up")
)

// reconcile takes up every lease that an earlier life left, and removes the
// folders of launches that nobody knows. A lease is stored before its folder is
// made, so the folders are listed first.
func (s *Service) reconcile(ctx context.Context) error {
	folders, err := s.p.Host.Folders()
	if err != nil {
		return err
	}
	leases, err := s.p.Store.Leases(ctx)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, l := range leases {
		keep[l.Launch] = !lease.Final(l.State) || lease.Keeps(l)
		if lease.Final(l.State) {
			continue
		}
		if err := s.p.Host.TakeUp(ctx, l); err != nil { // it must end all the same
			s.o.Log.Error("what was lent to a launch is not known", "launch", l.Launch, "err", err)
		}
		s.o.Log.Info("launch of an earlier life", "launch", l.Launch, "state", l.State)
		if err := s.begin(l, nil, lease.Recovered{Code: lease.CodeDaemonRestarted, Reason: "The daemon stopped in the middle of this launch."}); err != nil {
			return err
		}
	}
	s.open.Store(true)
	for _, f := range folders {
		if keep[f] {
			continue
		}
		alive, err := s.p.Host.Quiet(ctx, f, messages.UnitRef{}, s.o.QuietBound)
		if err != nil || alive != "" {
			s.o.Log.Warn("folder of an unknown launch stays", "launch", f, "alive", alive, "err", err)
			continue
		}
		if err := s.p.Host.Remove(ctx, f); err != nil { // no reason for the daemon to go down
			s.o.Log.Error("folder of an unknown launch can't be removed", "launch", f, "err", err)
		}
	}
	return ctx.Err()
}

// List returns every lease, newest first.
func (s *Service) List(ctx context.Context) ([]messages.Lease, error) {
	all, err := s.p.Store.Leases(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b messages.Lease) int {
		if c := proposedAt(b).Compare(proposedAt(a)); c != 0 {
			return c
		}
		return strings.Compare(a.Launch, b.Launch)
	})
	return all, nil
}

func proposedAt(l messages.Lease) time.Time {
	if len(l.History) > 0 {
		return l.History[0].At
	}
	return l.Updated
}

// Get returns a launch's lease as it is now.
func (s *Service) Get(ctx context.Context, launch string) (messages.Lease, error) {
	return s.Wait(ctx, launch, "")
}

// Wait returns the lease as soon as its state is another than after, or as it
// is when ctx's time is over.
func (s *Service) Wait(ctx context.Context, launch string, after messages.LeaseState) (messages.Lease, error) {
	v, err := s.ask(ctx, launch, await{after: after})
	if l, ok := v.(messages.Lease); ok {
		return l, err
	}
	if problem.CodeOf(err) != codeNotLive && !errors.Is(err, context.DeadlineExceeded) {
		return messages.Lease{}, err
	}
	return s.stored(context.WithoutCancel(ctx), launch)
}

// stored finds a launch in the store. Errors: launch_not_found.
func (s *Service) stored(ctx context.Context, launch string) (messages.Lease, error) {
	all, err := s.p.Store.Leases(ctx)
	if err != nil {
		return messages.Lease{}, err
	}
	for _, l := range all {
		if l.Launch == launch {
			return l, nil
		}
	}
	return messages.Lease{}, problem.New("launch_not_found", "there is no launch %s", launch).WithHint("sophia agent list shows them.")
}

// Attach gives the one attach token of a launch out, once. The caller zeroes it.
func (s *Service) Attach(ctx context.Context, launch string) (socket string, token *secret.Secret, err error) {
	v, err := s.ask(ctx, launch, takeToken{})
	if err != nil {
		if problem.CodeOf(err) == codeNotLive {
			err = problem.New("launch_not_running", "%s is not running", launch).WithHint("sophia agent list shows what runs.")
		}
		return "", nil, err
	}
	return s.p.Host.TerminalSocket(launch), v.(*secret.Secret), nil
}

// Stop asks for the end of a launch, and returns the lease as it is then.
func (s *Service) Stop(ctx context.Context, launch string) (messages.Lease, error) {
	v, err := s.ask(ctx, launch, stopNow{code: "stopped_by_owner", reason: "The owner stopped it."})
	if problem.CodeOf(err) == codeNotLive {
		return s.Get(ctx, launch)
	}
	if err != nil {
		return messages.Lease{}, err
	}
	return v.(messages.Lease), nil
}

// Close ends every launch, because the daemon is stopped in order, and takes no
// new one. It returns when nothing is left of them: credentials are back in their
// places. What survives its unit, or takes longer than ctx, is for the next daemon.
func (s *Service) Close(ctx context.Context) error {
	s.closing.Store(true)
	all, err := s.p.Store.Leases(ctx)
	if err != nil {
		return err
	}
	var ends sync.WaitGroup
	for _, l := range all {
		if lease.Final(l.State) {
			continue
		}
		ends.Go(func() {
			v, err := s.ask(ctx, l.Launch, stopNow{code: "daemon_stopped", reason: "Sophia was stopped."})
			for at, ok := v.(messages.Lease); err == nil && ok && !lease.Final(at.State) && at.State != messages.LeaseUnquiet && ctx.Err() == nil; {
				at, err = s.Wait(ctx, l.Launch, at.State)
			}
			if err != nil && problem.CodeOf(err) != codeNotLive {
				s.o.Log.Warn("a launch is left to the next daemon", "launch", l.Launch, "err", err)
			}
		})
	}
	ends.Wait()
	return nil
}

// Redeem changes the one-use handle for the lease's bearer. The second try ends
// the lease, because somebody else has tried.
func (s *Service) Redeem(ctx context.Context, launch, leaseID, wrapperDigest string, handle *secret.Secret) (*secret.Secret, error) {
	v, err := s.ask(ctx, launch, redeem{lease: leaseID, wrapper: wrapperDigest, handle: handle})
	if err != nil {
		return nil, err
	}
	return v.(*secret.Secret), nil
}

// Receipt is the proof of a wrapper's bearer: a receipt bound to the lease.
// The caller has looked the bearer's connection up.
func (s *Service) Receipt(ctx context.Context, a messages.Authority, nonce string) (messages.WorkReceipt, error) {
	if a.Launch == "" {
		return messages.WorkReceipt{}, problem.New("no_lease", "this connection belongs to no launch")
	}
	v, err := s.ask(ctx, a.Launch, prove{connection: a.Connection, lease: a.Lease, nonce: nonce})
	if err != nil {
		return messages.WorkReceipt{}, err
	}
	return v.(messages.WorkReceipt), nil
}

// Fail ends a launch from outside its subtree: somebody tried a handle that
// was used.
func (s *Service) Fail(launch, code, reason string) {
	if tree := s.tree.Load(); tree != nil {
		_ = tree.Lookup(launch + "/" + idLease).Send(lease.Failed{Code: code, Reason: reason}) // not live: nothing to end
	}
}

const codeNotLive = "launch_not_live"

func (s *Service) ask(ctx context.Context, launch string, msg any) (any, error) {
	tree := s.tree.Load()
	if tree == nil {
		return nil, problem.New(codeNotLive, "%s is not live", launch)
	}
	v, err := tree.Lookup(launch+"/"+idLease).Ask(ctx, msg)
	if errors.Is(err, supervise.ErrDown) {
		return nil, problem.Wrap(err, codeNotLive, "%s is not live", launch)
	}
	return v, err
}

func newID(prefix string) string {
	var b [4]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
