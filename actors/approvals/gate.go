package approvals

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// Store keeps requests and their verdicts.
type Store interface {
	// Put writes a row over the one with the same ID, durably.
	Put(ctx context.Context, row messages.ApprovalRow) error
	// Open returns the rows without a verdict.
	Open(ctx context.Context) ([]messages.ApprovalRow, error)
}

// Config is what a gate needs.
type Config struct {
	Store Store
	// Notify is told what is asked and answered, in order for each request. It
	// must not block; actors/trays.Hub.Publish doesn't.
	Notify func(messages.TrayEvent)
	// Timeout is how long the owner has. 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxOpen is how many requests of one connection may wait at a time, so that
	// an agent can't bury the owner. 0 means DefaultMaxOpen. What is asked for at a
	// terminal of the owner's counts for that terminal: programs that have no more
	// than the owner's key don't use up the places of whoever sits there.
	MaxOpen int
}

// Defaults of a Config.
const (
	DefaultTimeout = 5 * time.Minute
	DefaultMaxOpen = 16
)

// settleWait bounds the write that closes a request whose actor crashed.
const settleWait = 5 * time.Second

// Gate is the approvals of one daemon.
type Gate struct {
	store   Store
	notify  func(messages.TrayEvent)
	timeout time.Duration
	index   *index
	tree    Tree
}

// Tree finds the tree that the gate starts its actors in, as it is now: a nested
// tree has several lives. nil means that it has none at the moment.
type Tree func() *supervise.Tree

// New makes a gate over a tree with the policy Policy and no children. It closes
// what an earlier daemon left open: nobody waits for the answer any more, so it
// is withdrawn.
func New(ctx context.Context, tree Tree, c Config) (*Gate, error) {
	g := &Gate{store: c.Store, notify: c.Notify, timeout: c.Timeout, tree: tree, index: newIndex(c.MaxOpen)}
	if g.timeout <= 0 {
		g.timeout = DefaultTimeout
	}
	if g.notify == nil {
		g.notify = func(messages.TrayEvent) {}
	}
	left, err := c.Store.Open(ctx)
	if err != nil {
		return nil, problem.Wrap(err, "approvals_not_read", "the approvals that an earlier run left can't be read")
	}
	for _, row := range left {
		v := verdictOf(row.ApprovalRequest, messages.OutcomeWithdrawn, "", "the daemon restarted", time.Now())
		row.Verdict = &v
		if err := c.Store.Put(ctx, row); err != nil {
			return nil, problem.Wrap(err, "approvals_not_closed", "%s, left open by an earlier run, can't be closed", row.ID)
		}
		g.index.close(v)
	}
	return g, nil
}

// Policy is how the gate's tree treats failures: each request is on its own and
// is never started again, because a second life could be answered twice.
func Policy() supervise.Policy { return supervise.Policy{Strategy: supervise.OneForOne} }

// Request asks the owner and waits. The error says why nobody could be asked;
// what became of a question is in the verdict's Outcome, and only
// messages.OutcomeApproved is a yes. Refusal makes an error of any other. When
// ctx ends first, the request is withdrawn.
//
// The caller fills in Kind, Connection, Requester, Title and what is to be
// shown. Of a tool call the digest is computed here when it is empty, and
// checked when it is not; every other kind must bring its digest. ID, Code and
// the times are set here. An Expires that is set and sooner than the gate's
// time-out is kept.
func (g *Gate) Request(ctx context.Context, ask messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	if ask.Terminal == "" {
		ask.Terminal = Terminal(ctx)
	}
	ask, err := g.complete(ask)
	if err != nil {
		return messages.ApprovalVerdict{}, err
	}
	if err := g.index.reserve(ask); err != nil {
		return messages.ApprovalVerdict{}, err
	}
	defer g.index.release(ask)
	tree := g.tree()
	if tree == nil {
		return messages.ApprovalVerdict{}, notAsked(supervise.ErrDown)
	}
	ref, err := tree.Add(supervise.Spec{
		ID:      ask.ID,
		Restart: supervise.Temporary,
		New: func() actor.Receiver {
			return &request{core: core{row: messages.ApprovalRow{ApprovalRequest: ask}}, gate: g}
		},
	})
	if err != nil {
		return messages.ApprovalVerdict{}, notAsked(err)
	}
	v := g.await(ctx, ref, ask)
	if v.Outcome == messages.OutcomeApproved && (v.ID != ask.ID || v.Digest != ask.Digest || ctx.Err() != nil) {
		// Nobody may act on it any more, or it answers something else.
		v = verdictOf(ask, messages.OutcomeWithdrawn, "", goneReason, time.Now())
	}
	return v, nil
}

func notAsked(err error) error {
	return problem.Wrap(err, "approval_not_asked", "the owner can't be asked now").WithHint("Try again in a moment.")
}

const goneReason = "the caller went away"

// await waits for the verdict of one request, and makes one when the actor
// can't.
func (g *Gate) await(ctx context.Context, ref *supervise.Ref, ask messages.ApprovalRequest) messages.ApprovalVerdict {
	answer, err := ref.Ask(ctx, await{})
	if err != nil && ctx.Err() != nil {
		g.withdraw(ref, goneReason)
		// It ends by its clock at the latest; should it crash instead, somebody
		// must close it. Nobody acts on the verdict.
		go g.await(context.WithoutCancel(ctx), ref, ask)
		return verdictOf(ask, messages.OutcomeWithdrawn, "", goneReason, time.Now())
	}
	if v, ok := answer.(messages.ApprovalVerdict); ok && err == nil {
		return v
	}
	// The actor ended without telling us: perhaps before it heard that we wait,
	// perhaps by a crash.
	if v, ok := g.index.verdict(ask.ID); ok {
		return v
	}
	return g.settle(ask, "Sophia lost the request")
}

// withdraw closes a request that nobody waits for. With a full inbox the clock
// closes it instead. An answer that was taken a moment before stands in the
// record; nobody acts on it.
func (g *Gate) withdraw(ref *supervise.Ref, reason string) { _ = ref.Send(withdraw{reason}) }

// settle closes a request whose actor can't.
func (g *Gate) settle(ask messages.ApprovalRequest, reason string) messages.ApprovalVerdict {
	v := verdictOf(ask, messages.OutcomeWithdrawn, "", reason, time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), settleWait)
	defer cancel()
	// A crashed actor's write may still be under way, and must not come after
	// ours: an actor has exited only when its work has.
	if tree := g.tree(); tree != nil {
		_ = tree.Remove(ctx, ask.ID) // unknown: it has exited already
	}
	// If this fails too the row stays open, and the next start closes it.
	_ = g.store.Put(ctx, messages.ApprovalRow{ApprovalRequest: ask, Verdict: &v})
	g.closed(v)
	return v
}

// Decide answers a request: approval_already_decided for every answer but the
// first, approval_digest_mismatch when the digest is of something else,
// approval_not_found when there is no such request. nil means that the answer
// is recorded and will be acted upon. by says which tray or portal page it was.
func (g *Gate) Decide(ctx context.Context, id, digest, outcome, by, reason string) error {
	ref := g.index.taker(id)
	if ref == nil {
		return g.missing(id)
	}
	answer, err := ref.Ask(ctx, decide{digest, outcome, by, reason})
	switch {
	case errors.Is(err, supervise.ErrDown):
		return g.missing(id)
	case err != nil:
		return err
	}
	if _, ok := answer.(decided); !ok {
		return problem.New("internal", "%s gave a strange answer", id)
	}
	return nil
}

func (g *Gate) missing(id string) error {
	if v, ok := g.index.verdict(id); ok {
		return alreadyDecided(v)
	}
	return problem.New("approval_not_found", "there is no approval %q waiting", id).WithHint("sophia approval list shows what waits.")
}

// List is what waits for the owner, oldest first.
func (g *Gate) List(context.Context) ([]messages.ApprovalRequest, error) {
	return g.index.list(), nil
}

// Waiting is how many requests wait for the owner.
func (g *Gate) Waiting() int { return len(g.index.list()) }

func (g *Gate) opened(r messages.ApprovalRequest, ref *supervise.Ref) {
	if g.index.open(r, ref) {
		g.notify(messages.TrayEvent{Kind: messages.TrayAsked, Request: &r})
	}
}

func (g *Gate) closed(v messages.ApprovalVerdict) {
	if g.index.close(v) {
		g.notify(messages.TrayEvent{Kind: messages.TrayAnswered, Verdict: &v})
	}
}

func (g *Gate) complete(ask messages.ApprovalRequest) (messages.ApprovalRequest, error) {
	if ask.Kind == messages.ApproveToolCall {
		digest, err := CallDigest(ask.Tool, ask.Arguments, ask.Connection)
		if err != nil {
			return ask, err
		}
		if ask.Digest != "" && ask.Digest != digest {
			return ask, problem.New("approval_digest_mismatch", "the digest is not the one of this call")
		}
		ask.Digest = digest
	}
	if ask.Digest == "" {
		return ask, problem.New("approval_not_bound", "a request for %s must be bound to a digest", ask.Kind)
	}
	id := make([]byte, 5)
	rand.Read(id)
	ask.ID = "ap-" + hex.EncodeToString(id)
	ask.Code = newCode()
	ask.Requested = time.Now().Round(0)
	if limit := ask.Requested.Add(g.timeout); ask.Expires.IsZero() || ask.Expires.After(limit) {
		ask.Expires = limit
	}
	// The caller may go on using what it passed in.
	ask.Arguments = slices.Clone(ask.Arguments)
	ask.Details = slices.Clone(ask.Details)
	ask.Preview = slices.Clone(ask.Preview)
	return ask, nil
}

// codeAlphabet has no letters that look alike, and no vowels, so no words.
const codeAlphabet = "BCDFGHJKMPQRTVWXYZ2346789"

// newCode is what the owner types: short enough to type, new each time so that
// it must be read.
func newCode() string {
	raw := make([]byte, 5)
	rand.Read(raw)
	for i, b := range raw {
		raw[i] = codeAlphabet[int(b)%len(codeAlphabet)]
	}
	return string(raw)
}
