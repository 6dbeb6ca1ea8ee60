package launches

import (
	"errors"
	"sync/atomic"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/envelope"
	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/secret"
)

// launch is what the lives of one launch's actors share: what was ordered and
// the last lease that was stored. Only the keeper writes last.
type launch struct {
	id    string
	order *Order // nil for a launch of an earlier daemon
	last  atomic.Pointer[messages.Lease]
}

// IDs of the actors of a launch.
const (
	idLease    = "lease"
	idEnvelope = "envelope"
	idUnit     = "unit"
	idCleanup  = "cleanup"
)

// subtree is the spec of one launch. Envelope, unit and cleanup join when the
// launch starts.
func (s *Service) subtree(l messages.Lease, o *Order, first lease.Event) supervise.Spec {
	la := &launch{id: l.Launch, order: o}
	la.last.Store(&l)
	lives := 0
	keeper := supervise.Spec{ID: idLease, Restart: supervise.Permanent, New: func() actor.Receiver {
		k := &keeper{s: s, la: la, l: *la.last.Load(), first: first, siblings: map[string]*supervise.Ref{}}
		if lives++; lives > 1 {
			k.first = lease.Recovered{Code: lease.CodeActorRestarted, Reason: "The launch's actor failed and was started again."}
		}
		return k
	}}
	return supervise.Spec{ID: l.Launch, Restart: supervise.Temporary, Tree: &supervise.TreeSpec{
		Policy: supervise.Policy{Strategy: supervise.RestForOne, Max: s.o.Restarts, Within: s.o.RestartWindow, Backoff: s.o.Backoff},
		Kids:   []supervise.Spec{keeper},
	}}
}

// join adds what a launch that starts needs, in the order of who needs whom.
// relay is nil where the credential was handed out by an earlier life.
func (s *Service) join(tree *supervise.Tree, la *launch, relay *envelope.Spec) (*supervise.Ref, error) {
	var envelope *supervise.Ref
	if relay != nil {
		var err error
		envelope, err = tree.Add(supervise.Spec{ID: idEnvelope, Restart: supervise.Temporary,
			New: func() actor.Receiver { return s.p.Relays.Relay(*relay) }})
		if err != nil {
			return nil, err
		}
	}
	for _, spec := range []supervise.Spec{
		{ID: idUnit, Restart: supervise.Permanent, New: func() actor.Receiver { return &unitActor{s, la} }},
		{ID: idCleanup, Restart: supervise.Permanent, New: func() actor.Receiver { return &cleanupActor{s, la} }},
	} {
		if _, err := tree.Add(spec); err != nil && !errors.Is(err, supervise.ErrExists) {
			return nil, err
		}
	}
	return envelope, nil
}

// tell sends to the lease's actor. When that is down, its next life is
// Recovered, which ends the launch whatever it was told, and restarts the rest.
func tell(c *actor.Context, msg any) {
	_ = supervise.Home(c).Lookup(idLease).Send(msg)
}

// Messages to the lease's actor, besides lease.Event.
type (
	await     struct{ after messages.LeaseState } // Ask → messages.Lease
	takeToken struct{}                            // Ask → *secret.Secret
	stopNow   struct{ code, reason string }       // Ask → messages.Lease
	redeem    struct {                            // Ask → *secret.Secret, the bearer
		lease, wrapper string
		handle         *secret.Secret
	}
	prove struct{ connection, lease, nonce string } // Ask → messages.WorkReceipt
	here  struct {                                  // from a sibling's life, first of all
		id  string
		ref *supervise.Ref
	}
	leaseLook struct{}
	proofOver struct{}
)

// Messages of the lease's actor to itself: what came back from beside.
type (
	stored      struct{ err error }
	retry       struct{}
	revoked     struct{ err error }
	revokeAgain struct{}
	joined      struct{ err error }
	prepared    struct{ held *inHand }
	verified    struct {
		held   *inHand
		before []messages.SourceState
		err    error
	}
	began struct {
		relay *supervise.Ref
		unit  messages.UnitRef
		err   error
	}
	minted struct {
		row    messages.ConnectionRow
		bearer *secret.Secret
		err    error
		reply  supervise.Reply
	}
)

// Messages from the lease's actor to its siblings.
type (
	watchUnit struct{ unit messages.UnitRef }
	stopUnit  struct{ unit messages.UnitRef }
	gate      struct{ unit messages.UnitRef }
	compare   struct{ lease messages.Lease }
	remove    struct{}
	strip     struct{ lease messages.Lease }
)
