package workspaces

import (
	"os"
	"path/filepath"
	"testing"

	"sophia/hostd/harness/contracts"
	"sophia/hostd/ownerapi"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/importdoc"
	"sophia/store/tables"
)

func open(t *testing.T) *Service {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(store.Options{Dir: filepath.Join(dir, "store"), HighWater: filepath.Join(dir, "hw"), Tables: tables.All()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	texts, err := blobs.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	importdoc.Attach(db, texts)
	return New(db, db, texts)
}

func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"README.md": "# A project\n\nIt sails.\n", "go.mod": "module p\n", "main.go": "package main\n\nfunc main() { sail() }\n\nfunc sail() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWorkspace_AddedTwiceIsOne(t *testing.T) {
	s, dir := open(t), checkout(t)
	a, err := s.Add(t.Context(), ownerapi.AddWorkspace{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !a.New || a.Documents == 0 || a.Modules != 1 || a.Symbols != 2 || a.Name != filepath.Base(dir) {
		t.Errorf("%+v", a)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	b, err := s.Add(t.Context(), ownerapi.AddWorkspace{Path: link, Name: "Sails"})
	if err != nil || b.New || b.ID != a.ID || b.Name != "Sails" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, by := range []string{a.ID, "Sails", a.Path} {
		if w, err := s.Get(t.Context(), by); err != nil || w.ID != a.ID {
			t.Errorf("by %s: %+v, %v", by, w, err)
		}
	}
}

func TestWorkspace_ProfilesAreForThatWorkspace(t *testing.T) {
	s := open(t)
	for range 2 {
		if err := s.Seed(t.Context(), contracts.Set{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := s.Add(t.Context(), ownerapi.AddWorkspace{Path: checkout(t)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Profiles(t.Context(), w.ID)
	if err != nil || len(got) != 2 || !got[0].Default || got[0].Name != "Codex reviewer" {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, p := range got {
		if len(p.Scope) != 1 || p.Scope[0] != w.ID {
			t.Errorf("%s has the scope %v", p.ID, p.Scope)
		}
	}
}

func TestWorkspace_AHarnessOfTheOwnersOwnHasAProfile(t *testing.T) {
	s := open(t)
	if err := s.Seed(t.Context(), contracts.Set{}); err != nil { // an earlier daemon, before it was declared
		t.Fatal(err)
	}
	set, err := contracts.New(map[string]contracts.Settings{"mycli": {Name: "My CLI", Version: "mycli 1", HomeVar: "MYCLI_HOME"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Seed(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	w, err := s.Add(t.Context(), ownerapi.AddWorkspace{Path: checkout(t)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Profiles(t.Context(), w.ID)
	if err != nil || len(got) != 3 || got[2].Harness != "mycli" || got[2].Name != "My CLI" || got[2].Default {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestWorkspace_RefusesWhatIsNoCheckout(t *testing.T) {
	s := open(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for path, code := range map[string]string{"relative": "workspace_missing", "/nowhere/at/all": "workspace_missing", "/": "workspace_too_wide", home: "workspace_too_wide", "/etc/hostname": "workspace_missing"} {
		if _, err := s.Add(t.Context(), ownerapi.AddWorkspace{Path: path}); problem.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
	if _, err := s.Profiles(t.Context(), "ws-none"); problem.CodeOf(err) != "workspace_not_found" {
		t.Error(err)
	}
}
