package connections

import (
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/store"
	"sophia/store/tables"
)

func open(t *testing.T) *Service {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(store.Options{Dir: filepath.Join(dir, "store"), HighWater: filepath.Join(dir, "hw"), Tables: []*store.Def{tables.Connections.Def()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(db, db)
}

func (s *Service) knows(t *testing.T, sum [sha256.Size]byte) bool {
	t.Helper()
	_, ok, err := s.ByBearer(t.Context(), sum)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func mustSum(t *testing.T, b *secret.Secret) [sha256.Size]byte {
	t.Helper()
	sum, err := b.SHA256()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestConnection_RevokedFailsOnTheNextCall(t *testing.T) {
	s := open(t)
	row, bearer, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "Codex", Scope: []string{"acme"}})
	if err != nil {
		t.Fatal(err)
	}
	defer bearer.Zero()
	sum := mustSum(t, bearer)
	if !s.knows(t, sum) {
		t.Fatal("a minted bearer is not known")
	}
	if err := s.Live(t.Context(), row.Authority); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Revoke(t.Context(), row.Connection); err != nil {
			t.Fatal(err)
		}
		if s.knows(t, sum) {
			t.Error("known after the revocation")
		}
		if err := s.Live(t.Context(), row.Authority); problem.CodeOf(err) != "invalid_or_revoked_bearer" {
			t.Errorf("live after the revocation: %v", err)
		}
	}
	_, err = s.Revoke(t.Context(), "conn-none")
	if problem.CodeOf(err) != "connection_not_found" {
		t.Errorf("revoking nobody: %v", err)
	}
}

func TestConnection_StoresNoBearer(t *testing.T) {
	s := open(t)
	_, bearer, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "Codex"})
	if err != nil {
		t.Fatal(err)
	}
	defer bearer.Zero()
	rows, err := s.List(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	text, _ := json.Marshal(rows)
	r := s.db.View(store.Owner())
	defer r.Close()
	page, err := r.Mutations(store.MutationQuery{})
	if err != nil {
		t.Fatal(err)
	}
	journal, _ := json.Marshal(page)
	bearer.Use(func(b []byte) error {
		if strings.Contains(string(text)+string(journal), string(b)) {
			t.Error("the bearer is in the store")
		}
		return nil
	})
}

func TestConnection_ExpiresWithItsTime(t *testing.T) {
	s := open(t)
	_, bearer, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "Codex", TTL: 3600})
	if err != nil {
		t.Fatal(err)
	}
	defer bearer.Zero()
	sum := mustSum(t, bearer)
	if !s.knows(t, sum) {
		t.Error("not known before its end")
	}
	plan := messages.Plan{Seat: "Reviewer_1", Lease: "ls-1", Launch: "lp-1", Permission: messages.Full, WriteApproval: messages.WriteApprovalAlways}
	row, late, err := s.MintForLease(t.Context(), plan, time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Zero()
	if s.knows(t, mustSum(t, late)) || s.Live(t.Context(), row.Authority) == nil {
		t.Error("known after its end")
	}
	if row.WriteApproval != messages.WriteApprovalAlways {
		t.Errorf("the plan's write approval is lost: %q", row.WriteApproval)
	}
}

func TestConnection_LeaseOverRevokesAllOfIt(t *testing.T) {
	s := open(t)
	plan := messages.Plan{Seat: "Reviewer_1", Lease: "ls-1", Launch: "lp-1", Permission: messages.Full}
	_, b, err := s.MintForLease(t.Context(), plan, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Zero()
	_, other, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Zero()
	if err := s.RevokeForLease(t.Context(), "ls-1"); err != nil {
		t.Fatal(err)
	}
	if s.knows(t, mustSum(t, b)) || !s.knows(t, mustSum(t, other)) {
		t.Error("revoked the wrong ones")
	}
}

func TestConnection_RefusesWhatItDoesNotKnow(t *testing.T) {
	s := open(t)
	for code, ask := range map[string]ownerapi.MintRequest{
		"invalid_name":       {Name: " "},
		"invalid_profile":    {Name: "a", Profile: "root"},
		"invalid_surface":    {Name: "a", Surface: "all"},
		"invalid_tool_names": {Name: "a", ToolNames: "camel"},
		"invalid_scope":      {Name: "a", Scope: []string{""}},
		"invalid_ttl":        {Name: "a", TTL: -1},
	} {
		if _, _, err := s.Mint(t.Context(), ask); problem.CodeOf(err) != code {
			t.Errorf("%+v: %v, want %s", ask, err, code)
		}
	}
	if _, _, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "a", Profile: messages.Portal}); err == nil {
		t.Error("minted a portal connection")
	}
}
