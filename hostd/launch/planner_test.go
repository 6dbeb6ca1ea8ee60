package launch

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sophia/actors/launches"
	"sophia/actors/launches/lease"
	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/workspaces"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

// at is a program that lies where it says.
type at string

func (p at) Program(context.Context, string) (path, tree string, err error) {
	return string(p), "", nil
}

// remembered is a planner's memory of files that it has looked at.
func remembered(t *testing.T, files ...string) map[string]seen {
	t.Helper()
	ids := map[string]seen{}
	for _, f := range files {
		if err := os.WriteFile(f, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := stampOf(f)
		if err != nil {
			t.Fatal(err)
		}
		ids[f] = seen{s, messages.FileIdentity{Path: f, SHA256: "00"}}
	}
	return ids
}

// The stored profile is read again after the approval: whoever has changed it in
// the store meanwhile, in whatever field, has changed nothing of what runs.
func TestPlan_AProfileChangedInTheStoreIsRefusedByField(t *testing.T) {
	db, _ := storetest.InMemory(t)
	texts, err := blobs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set, err := contracts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	service := workspaces.New(db, db, texts)
	if err := service.Seed(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	write := func(f func(tx *store.Tx) error) {
		t.Helper()
		if _, err := db.Write(t.Context(), store.System("test", "test"), f); err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *store.Tx) error {
		return tables.Workspaces.Put(tx, messages.Workspace{ID: "ws-1", Name: "w", Path: t.TempDir()})
	})
	bin := t.TempDir()
	program := filepath.Join(bin, "codex")
	planner := &Planner{Workspaces: service, Installations: at(program), Verifier: harness.Verifier{Contracts: set}, Programs: Programs{Dir: bin},
		ids: identities{seen: remembered(t, program, filepath.Join(bin, "sophia-wrapper"), filepath.Join(bin, "sophia-host"), filepath.Join(bin, "sophiad"))}}
	order := launches.Order{Launch: "lp-1", Lease: "ls-1", Workspace: "ws-1"}
	approved, err := planner.Compile(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	r := db.View(store.Owner())
	stored, err := tables.Profiles.Get(r, approved.Profile)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]struct {
		change func(*messages.LaunchProfile)
		names  string // the field of the plan; "" where no profile fits any more
	}{
		"id":             {func(p *messages.LaunchProfile) { p.ID = "other" }, "profile"},
		"version":        {func(p *messages.LaunchProfile) { p.Version++ }, "profile_version"},
		"name":           {func(p *messages.LaunchProfile) { p.Name += "x" }, "profile_name"},
		"harness":        {func(p *messages.LaunchProfile) { p.Harness = "claude-code" }, "harness"},
		"permission":     {func(p *messages.LaunchProfile) { p.Permission = messages.Full }, "permission"},
		"surface":        {func(p *messages.LaunchProfile) { p.Surface = messages.SurfaceFull }, "surface"},
		"scope":          {func(p *messages.LaunchProfile) { p.Scope = []string{"*"} }, "scope"},
		"lease_seconds":  {func(p *messages.LaunchProfile) { p.LeaseSeconds *= 2 }, "lease_seconds"},
		"write_approval": {func(p *messages.LaunchProfile) { p.WriteApproval = messages.WriteApprovalAlways }, "write_approval"},
		"confine":        {func(p *messages.LaunchProfile) { p.Confine = "strict" }, "confine"},
		"default":        {func(p *messages.LaunchProfile) { p.Default = false }, ""},
	}
	for i := range reflect.TypeFor[messages.LaunchProfile]().NumField() {
		field, _, _ := strings.Cut(reflect.TypeFor[messages.LaunchProfile]().Field(i).Tag.Get("json"), ",")
		t.Run(field, func(t *testing.T) {
			c, ok := changes[field]
			if !ok {
				t.Fatal("a field that this test does not change")
			}
			changed := stored
			c.change(&changed)
			replace := func(old, by messages.LaunchProfile) {
				write(func(tx *store.Tx) error {
					if err := tables.Profiles.Delete(tx, old.ID); err != nil {
						return err
					}
					return tables.Profiles.Put(tx, by)
				})
			}
			replace(stored, changed)
			defer replace(changed, stored)
			operation, err := planner.Compile(t.Context(), order)
			if err == nil {
				err = lease.Mismatch(approved, operation)
			}
			p := problem.Of(err)
			if c.names == "" {
				if p.Code != "profile_not_found" {
					t.Errorf("%v, want that no profile fits", err)
				}
				return
			}
			if p.Code != "plan_field_mismatch" || p.Valid[0] != c.names {
				t.Errorf("%v, want a refusal that names %s", err, c.names)
			}
		})
	}
	if operation, err := planner.Compile(t.Context(), order); err != nil || lease.Mismatch(approved, operation) != nil {
		t.Errorf("put back: %v, %v", err, lease.Mismatch(approved, operation))
	}
}
