package connections

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/store"
	"sophia/store/tables"
)

// Gate asks the owner and waits for the one answer, as actors/approvals.Gate.
type Gate interface {
	Request(ctx context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error)
}

// Service is the daemon's connections. It is safe for concurrent use.
type Service struct {
	db      *store.DB
	w       store.Writer
	gate    Gate
	bearers *tables.Bearers
}

// New makes the service over a store; gate is asked before a connection is
// minted that can do more than the owner's key alone.
func New(db *store.DB, w store.Writer, gate Gate) *Service {
	return &Service{db: db, w: w, gate: gate, bearers: tables.NewBearers(db)}
}

// BearerPrefix begins every bearer, so that a leaked one is recognized by
// whoever finds it.
const BearerPrefix = "sophia_"

const bearerBytes = 32

// Mint makes a connection and its bearer, for which it may have to wait until
// the owner approves it. The caller zeroes the bearer. Codes: invalid_… for what
// no connection can be, approval_… when the owner did not agree.
func (s *Service) Mint(ctx context.Context, ask ownerapi.MintRequest) (messages.ConnectionRow, *secret.Secret, error) {
	row := messages.ConnectionRow{Authority: messages.Authority{
		Name: strings.TrimSpace(ask.Name), Profile: ask.Profile, Surface: ask.Surface, Scope: ask.Scope, ToolNames: ask.ToolNames,
	}}
	if err := complete(&row.Authority); err != nil {
		return row, nil, err
	}
	if ask.TTL < 0 {
		return row, nil, problem.New("invalid_ttl", "a connection can't live for %d seconds", ask.TTL)
	}
	reason := "connection minted"
	if needsPresence(row.Authority) {
		approval, err := s.approved(ctx, row.Authority, ask.TTL)
		if err != nil {
			return row, nil, err
		}
		reason += ", approved as " + approval
	}
	if ask.TTL > 0 {
		end := time.Now().Add(time.Duration(ask.TTL) * time.Second)
		row.Expires = &end
	}
	return s.mint(ctx, row, reason)
}

// MintForLease makes the connection of a managed launch.
func (s *Service) MintForLease(ctx context.Context, p messages.Plan, expires time.Time) (messages.ConnectionRow, *secret.Secret, error) {
	row := messages.ConnectionRow{Authority: messages.Authority{
		Name: p.Seat, Profile: p.Permission, Surface: p.Surface, Scope: p.Scope, WriteApproval: p.WriteApproval,
		ToolNames: messages.DottedNames, Lease: p.Lease, Launch: p.Launch,
	}}
	if err := complete(&row.Authority); err != nil {
		return row, nil, err
	}
	if !expires.IsZero() {
		row.Expires = &expires
	}
	return s.mint(ctx, row, "connection of launch "+p.Launch)
}

func complete(a *messages.Authority) error {
	if a.Name == "" || len(a.Name) > 80 || strings.ContainsFunc(a.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return problem.New("invalid_name", "a connection needs a name of 1 to 80 printable characters").WithHint("It is shown in the audit log and on posts.")
	}
	if a.Profile == "" {
		a.Profile = messages.Assistant
	}
	if a.Surface == "" {
		a.Surface = messages.SurfaceCore
	}
	if a.ToolNames == "" {
		a.ToolNames = messages.DottedNames
	}
	if a.Scope == nil {
		a.Scope = []string{}
	}
	for _, f := range []struct {
		what, value string
		valid       []string
	}{
		{"profile", string(a.Profile), []string{string(messages.Observer), string(messages.Assistant), string(messages.Full)}},
		{"surface", string(a.Surface), []string{string(messages.SurfaceCore), string(messages.SurfaceFull), string(messages.SurfaceCode)}},
		{"tool_names", a.ToolNames, []string{messages.DottedNames, messages.UnderscoreNames}},
	} {
		if !slices.Contains(f.valid, f.value) {
			return problem.New("invalid_"+f.what, "%q is no %s", f.value, f.what).WithValid(f.valid...)
		}
	}
	if slices.Contains(a.Scope, "") {
		return problem.New("invalid_scope", "an entity in the scope has no name").WithHint("Give entity ids, or * for all.")
	}
	return nil
}

func (s *Service) mint(ctx context.Context, row messages.ConnectionRow, reason string) (messages.ConnectionRow, *secret.Secret, error) {
	bearer, err := secret.Random(BearerPrefix, bearerBytes)
	if err != nil {
		return row, nil, err
	}
	sum, err := bearer.SHA256()
	if err == nil {
		row.Connection, row.BearerSHA256 = newID(), hex.EncodeToString(sum[:])
		_, err = s.w.Write(ctx, owner(reason), func(tx *store.Tx) error {
			row.Created = tx.Now()
			if row.LastPost, err = tables.LastPost(tx); err != nil {
				return err
			}
			return tables.Connections.Insert(tx, row)
		})
	}
	if err != nil {
		bearer.Zero()
		return row, nil, err
	}
	return row, bearer, nil
}

// List returns all connections, newest first.
func (s *Service) List(context.Context) ([]messages.ConnectionRow, error) {
	r := s.db.View(store.Owner())
	defer r.Close()
	rows, err := tables.Connections.All(r, store.Query[messages.ConnectionRow]{})
	slices.SortFunc(rows, func(a, b messages.ConnectionRow) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.Connection, b.Connection)
	})
	return rows, err
}

// Revoke ends a connection: its next call is refused. Revoking it again changes
// nothing.
func (s *Service) Revoke(ctx context.Context, id string) (row messages.ConnectionRow, err error) {
	_, err = s.w.Write(ctx, owner("connection revoked"), func(tx *store.Tx) error {
		if row, err = tables.Connections.Get(tx, id); err != nil {
			return problem.Wrap(err, "connection_not_found", "there is no connection %s", id).WithHint("sophia connection list shows them.")
		}
		if row.Revoked != nil {
			return nil
		}
		now := tx.Now()
		row.Revoked = &now
		return tables.Connections.Put(tx, row)
	})
	return row, err
}

// RevokeForLease ends whatever connections a lease has.
func (s *Service) RevokeForLease(ctx context.Context, lease string) error {
	_, err := s.w.Write(ctx, owner("launch ended"), func(tx *store.Tx) error {
		rows, err := tables.Connections.All(tx, store.Query[messages.ConnectionRow]{Index: "lease", Prefix: store.Tuple{lease}})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Revoked != nil {
				continue
			}
			now := tx.Now()
			row.Revoked = &now
			if err := tables.Connections.Put(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// ByBearer finds the connection of a bearer's SHA-256. ok is false for an
// unknown, revoked or expired one: the three look the same.
func (s *Service) ByBearer(_ context.Context, sum [sha256.Size]byte) (a messages.Authority, ok bool, err error) {
	row, ok, err := s.bearers.Find(sum)
	if err != nil || !ok || !usable(row) {
		return messages.Authority{}, false, err
	}
	return row.Authority, true, nil
}

// Live says whether a connection can still be used: for calls that come after
// the one whose bearer was looked up, from a script or after an approval. Error:
// invalid_or_revoked_bearer.
func (s *Service) Live(_ context.Context, a messages.Authority) error {
	r := s.db.View(store.Owner())
	defer r.Close()
	row, err := tables.Connections.Get(r, a.Connection)
	if problem.CodeOf(err) == "not_found" || err == nil && !usable(row) {
		return problem.New("invalid_or_revoked_bearer", "the connection %s was revoked, or its time is over", a.Connection).
			WithHint("Nothing more can be done with it. Ask the owner for a new one.")
	}
	return err
}

func usable(row messages.ConnectionRow) bool {
	return row.Revoked == nil && (row.Expires == nil || time.Now().Before(*row.Expires))
}

var ownerActor = messages.Actor{Connection: "owner", Name: "owner"}

func owner(reason string) store.Cause {
	return store.Cause{Actor: ownerActor, Scope: store.Owner(), Reason: reason}
}

func newID() string {
	var b [4]byte
	rand.Read(b[:])
	return "conn-" + hex.EncodeToString(b[:])
}
