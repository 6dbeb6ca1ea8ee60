package tables

import (
	"encoding/hex"
	"slices"
	"sync/atomic"

	"sophia/messages"
	"sophia/store"
)

// Connections are minted connections, by conn-…. For the owner alone.
var Connections = store.Define(store.Spec[messages.ConnectionRow]{
	ID: 1, Name: "connections", Noun: "connection",
	Key: func(r *messages.ConnectionRow) string { return r.Connection },
	Indexes: []store.Index[messages.ConnectionRow]{
		{Name: "bearer", Unique: true, Values: func(r *messages.ConnectionRow) []store.Tuple {
			if r.BearerSHA256 == "" {
				return nil
			}
			return []store.Tuple{{r.BearerSHA256}}
		}},
		{Name: "lease", Values: func(r *messages.ConnectionRow) []store.Tuple {
			if r.Lease == "" {
				return nil
			}
			return []store.Tuple{{r.Lease}}
		}},
	},
})

// Approvals are what the owner was asked, by ap-…. For the owner alone.
var Approvals = store.Define(store.Spec[messages.ApprovalRow]{
	ID: 2, Name: "approvals", Noun: "approval",
	Key: func(r *messages.ApprovalRow) string { return r.ID },
	Indexes: []store.Index[messages.ApprovalRow]{
		store.One("requested", func(r *messages.ApprovalRow) store.Tuple { return store.Tuple{r.Requested} }),
		{Name: "open", Values: func(r *messages.ApprovalRow) []store.Tuple {
			if r.Verdict != nil {
				return nil
			}
			return []store.Tuple{{r.Requested}}
		}},
	},
})

// Workspaces are registered checkouts, by ws-…. For the owner alone.
var Workspaces = store.Define(store.Spec[messages.Workspace]{
	ID: 3, Name: "workspaces", Noun: "workspace",
	Key: func(r *messages.Workspace) string { return r.ID },
	Indexes: []store.Index[messages.Workspace]{
		{Name: "path", Unique: true, Values: func(r *messages.Workspace) []store.Tuple { return []store.Tuple{{r.Path}} }},
	},
})

// Profiles are launch profiles, by id. For the owner alone.
var Profiles = store.Define(store.Spec[messages.LaunchProfile]{
	ID: 4, Name: "launch_profiles", Noun: "launch profile",
	Key: func(r *messages.LaunchProfile) string { return r.ID },
})

// Leases are managed launches, by ls-…. For the owner alone.
var Leases = store.Define(store.Spec[messages.Lease]{
	ID: 5, Name: "leases", Noun: "lease",
	Key: func(r *messages.Lease) string { return r.ID },
	Indexes: []store.Index[messages.Lease]{
		{Name: "launch", Unique: true, Values: func(r *messages.Lease) []store.Tuple { return []store.Tuple{{r.Launch}} }},
		store.One("updated", func(r *messages.Lease) store.Tuple { return store.Tuple{r.Updated} }),
	},
})

// Bearers looks connections up by their bearer's SHA-256, as every call does.
// It keeps the rows in memory for as long as the table has not changed: a
// revoked bearer is refused by the first call after the revocation's Write has
// returned. It is safe for concurrent use.
type Bearers struct {
	db   *store.DB
	rows atomic.Pointer[bearerRows]
}

type bearerRows struct {
	version uint64
	byHash  map[[32]byte]*messages.ConnectionRow
}

// NewBearers makes the look-up over a store.
func NewBearers(db *store.DB) *Bearers { return &Bearers{db: db} }

// Find returns the row of a bearer, also a revoked or expired one: what that
// means is the caller's to say. ok is false when there is none.
func (b *Bearers) Find(sum [32]byte) (row messages.ConnectionRow, ok bool, err error) {
	version := b.db.Version(Connections.Def())
	rows := b.rows.Load()
	if rows == nil || rows.version != version {
		if rows, err = b.load(version); err != nil {
			return row, false, err
		}
	}
	r := rows.byHash[sum]
	if r == nil {
		return row, false, nil
	}
	row = *r
	row.Scope = slices.Clone(r.Scope)
	return row, true, nil
}

// load reads all connections. version was read before the snapshot is taken, so
// that rows are never taken for newer than they are.
func (b *Bearers) load(version uint64) (*bearerRows, error) {
	r := b.db.View(store.Owner())
	defer r.Close()
	all, err := Connections.All(r, store.Query[messages.ConnectionRow]{})
	if err != nil {
		return nil, err
	}
	rows := &bearerRows{version: version, byHash: make(map[[32]byte]*messages.ConnectionRow, len(all))}
	for i := range all {
		var sum [32]byte
		if n, err := hex.Decode(sum[:], []byte(all[i].BearerSHA256)); err == nil && n == len(sum) {
			rows.byHash[sum] = &all[i]
		}
	}
	b.rows.Store(rows)
	return rows, nil
}
