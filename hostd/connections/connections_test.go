package connections

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
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

// owned is the owner's answer to whatever is asked, and what was asked.
type owned struct {
	answer string // an outcome
	other  bool   // it comes with the digest of something else
	asked  []messages.ApprovalRequest
}

func (o *owned) Request(_ context.Context, r messages.ApprovalRequest) (messages.ApprovalVerdict, error) {
	o.asked = append(o.asked, r)
	v := messages.ApprovalVerdict{ID: "ap-1", Outcome: o.answer, Digest: r.Digest}
	if o.other {
		v.Digest = "0"
	}
	return v, nil
}

func open(t *testing.T) *Service {
	t.Helper()
	return openFor(t, nil) // nobody is asked
}

func openFor(t *testing.T, gate Gate) *Service {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(store.Options{Dir: filepath.Join(dir, "store"), HighWater: filepath.Join(dir, "hw"), Tables: tables.All()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(db, db, gate)
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
		"invalid_name":       {Name: "a\x1b[2J"},
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
	if _, _, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: " "}); problem.CodeOf(err) != "invalid_name" {
		t.Errorf("no name: %v", err)
	}
	if _, _, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "a", Profile: messages.Portal}); err == nil {
		t.Error("minted a portal connection")
	}
}

// The owner's key is a file: what it mints by itself can do no more than it.
func TestConnection_TheKeyAloneMintsNothingWide(t *testing.T) {
	for _, c := range []struct {
		profile messages.Profile
		scope   []string
		asks    bool
	}{
		{messages.Observer, []string{"acme"}, false},
		{messages.Observer, []string{"*"}, false},
		{messages.Assistant, []string{"acme", "beta"}, false},
		{messages.Assistant, []string{"acme", "*"}, true},
		{messages.Full, []string{"acme"}, true},
		{messages.Full, nil, true},
		{"", []string{"*"}, true}, // assistant
	} {
		for outcome, code := range map[string]string{
			messages.OutcomeApproved: "", messages.OutcomeDenied: "approval_denied", messages.OutcomeTimedOut: "approval_timed_out", messages.OutcomeWithdrawn: "approval_withdrawn",
		} {
			gate := &owned{answer: outcome}
			s := openFor(t, gate)
			row, bearer, err := s.Mint(t.Context(), ownerapi.MintRequest{Name: "Codex", Profile: c.profile, Scope: c.scope, TTL: 90})
			if bearer != nil {
				bearer.Zero()
			}
			if !c.asks {
				code = ""
			}
			if problem.CodeOf(err) != code || len(gate.asked) > 0 != c.asks {
				t.Errorf("%v, answered %s: %v, asked %+v", c, outcome, err, gate.asked)
			}
			rows, listErr := s.List(t.Context())
			if minted := len(rows) == 1; listErr != nil || minted != (code == "") {
				t.Errorf("%v, answered %s: minted %+v, %v", c, outcome, rows, listErr)
			}
			if c.asks && code == "" && row.Profile != messages.Full && row.Profile != messages.Assistant {
				t.Errorf("%v: %+v", c, row)
			}
		}
	}
}

// What the owner reads is what is minted, and the answer holds for nothing else.
func TestConnection_TheApprovalIsBoundToAllOfIt(t *testing.T) {
	gate := &owned{answer: messages.OutcomeApproved}
	s := openFor(t, gate)
	ask := ownerapi.MintRequest{Name: "Codex", Profile: messages.Full, Surface: messages.SurfaceCode, Scope: []string{"acme"}, TTL: 90}
	for _, change := range []func(*ownerapi.MintRequest){
		func(*ownerapi.MintRequest) {},
		func(m *ownerapi.MintRequest) { m.Name = "Other" },
		func(m *ownerapi.MintRequest) { m.Profile, m.Scope = messages.Assistant, []string{"*"} },
		func(m *ownerapi.MintRequest) { m.Scope = []string{"acme", "beta"} },
		func(m *ownerapi.MintRequest) { m.Surface = messages.SurfaceCore },
		func(m *ownerapi.MintRequest) { m.ToolNames = messages.UnderscoreNames },
		func(m *ownerapi.MintRequest) { m.TTL = 0 },
	} {
		other := ask
		change(&other)
		_, bearer, err := s.Mint(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		bearer.Zero()
	}
	seen := map[string]bool{}
	for _, r := range gate.asked {
		if seen[r.Digest] {
			t.Errorf("%q is bound to the digest of another connection", r.Title)
		}
		seen[r.Digest] = true
	}
	shown := fmt.Sprint(gate.asked[0].Title, gate.asked[0].Details)
	for _, want := range []string{"Codex", "full", "without asking", "code", "acme", "1m30s"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the owner is not told %q: %s", want, shown)
		}
	}
	gate.other = true
	if _, _, err := s.Mint(t.Context(), ask); problem.CodeOf(err) != "approval_mismatch" {
		t.Errorf("an answer to something else: %v", err)
	}
}
