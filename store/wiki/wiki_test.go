package wiki_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/store/wiki"
	"sophia/testkit/storetest"
)

var bg = context.Background()

type fixture struct {
	t   *testing.T
	db  *store.DB
	mem *storetest.Memory
	v   *wiki.Vault
	dir string
}

func setUp(t *testing.T) *fixture {
	db, mem := storetest.InMemory(t)
	dir := t.TempDir()
	v, err := wiki.Open(db, dir, filepath.Join(dir, "wiki.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return &fixture{t, db, mem, v, dir}
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, "wiki", name) }

func (f *fixture) write(d wiki.Draft) (store.Receipt, error) {
	return f.db.Write(bg, store.System("test", ""), func(tx *store.Tx) error {
		_, err := f.v.Put(tx, d)
		return err
	})
}

func (f *fixture) file(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(f.path(name))
	if os.IsNotExist(err) {
		return "(none)"
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

func (f *fixture) page(key string) tables.WikiPage {
	f.t.Helper()
	r := f.db.View(store.Owner())
	defer r.Close()
	p, err := tables.WikiPages.Get(r, key)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func TestPage_WrittenSignedAndFound(t *testing.T) {
	f := setUp(t)
	if _, err := f.write(wiki.Draft{Kind: "decision", Slug: "use-badger", Title: `Store: "badger" # yes`, Body: "See [[glossary/lsm|LSM]] and [[notes#x]].", Tags: []string{"store", "a, b"}, Entity: "acme"}); err != nil {
		t.Fatal(err)
	}
	p := f.page("decision/use-badger")
	if p.Title != `Store: "badger" # yes` || p.Signature != wiki.Signed || p.Entity != "acme" || strings.Join(p.Links, " ") != "glossary/lsm notes" || len(p.Tags) != 2 {
		t.Errorf("%+v", p)
	}
	if got := f.file("decision/use-badger.md"); got != p.File || !strings.Contains(got, "signature: ed25519:") {
		t.Errorf("the file: %q", got)
	}
	st, err := os.Stat(filepath.Join(f.dir, "wiki.key"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode: %v, %v", st.Mode(), err)
	}
	r := f.db.View(store.ScopeOf([]string{"acme"}))
	defer r.Close()
	if found, err := r.Search(store.SearchQuery{Text: "LSM", Tables: []*store.Def{tables.WikiPages.Def()}}); err != nil || found.Total != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	for _, name := range [][2]string{{"nonsense", "x"}, {"note", "../x"}, {"note", "A"}, {"note", ""}, {"note", "a--b"}} {
		if _, err := f.write(wiki.Draft{Kind: name[0], Slug: name[1]}); !strings.HasPrefix(problem.CodeOf(err), "wiki_") {
			t.Errorf("%v: %v", name, err)
		}
	}
}

func TestPage_ARevertRestoresTheFile(t *testing.T) {
	f := setUp(t)
	first, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Body: "one"})
	if err != nil {
		t.Fatal(err)
	}
	one := f.file("note/plan.md")
	second, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Body: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Revert(bg, f.db, store.System("test", ""), second.First, false); err != nil {
		t.Fatal(err)
	}
	if got := f.file("note/plan.md"); got != one {
		t.Errorf("%q, want %q", got, one)
	}
	if _, err := store.Revert(bg, f.db, store.System("test", ""), first.First, false); err != nil {
		t.Fatal(err)
	}
	if got := f.file("note/plan.md"); got != "(none)" {
		t.Errorf("the page's creation is undone, but the file is %q", got)
	}
}

func TestPage_AHandEditIsPickedUpAndMarked(t *testing.T) {
	f := setUp(t)
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Title: "Plan", Body: "one", Entity: "acme"}); err != nil {
		t.Fatal(err)
	}
	signed := f.file("note/plan.md")
	for name, edit := range map[string]struct{ content, signature string }{
		"body changed under the signature": {strings.Replace(signed, "one", "1", 1), wiki.Forged},
		"without front matter":             {"\ufeff# Mine: all of it\n\nby hand\n", wiki.Unsigned},
		"own keys, double front matter":    {"---\nowner: me\ntitle: a: b\ntags:\n  - x\n  - 'y'\n---\n---\ntitle: no\n---\ntext\n", wiki.Unsigned},
	} {
		if err := os.WriteFile(f.path("note/plan.md"), []byte(edit.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Body: "over it"}); problem.CodeOf(err) != "wiki_page_edited" {
			t.Errorf("%s: written over: %v", name, err)
		}
		if got := f.file("note/plan.md"); got != edit.content {
			t.Errorf("%s: the edit is lost: %q", name, got)
		}
		if n, err := f.v.Rescan(bg, f.db); n != 1 || err != nil {
			t.Errorf("%s: picked up %d, %v", name, n, err)
		}
		if p := f.page("note/plan"); p.Signature != edit.signature || p.File != edit.content {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Title: "Plan", Body: "three"}); err != nil {
		t.Fatal(err)
	}
	if p := f.page("note/plan"); p.Signature != wiki.Signed {
		t.Errorf("%+v", p)
	}
	if err := os.WriteFile(f.path("note/own.md"), []byte("---\nowner: me\ntitle: a: b\ntags:\n  - x\n  - 'y'\n---\ntext\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.path("note/plan.md")); err != nil {
		t.Fatal(err)
	}
	if n, err := f.v.Rescan(bg, f.db); n != 2 || err != nil {
		t.Errorf("picked up %d, %v", n, err)
	}
	if p := f.page("note/own"); p.Title != "a: b" || strings.Join(p.Tags, " ") != "x y" {
		t.Errorf("%+v", p)
	}
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "own", Title: "T", Body: "x"}); err != nil || !strings.Contains(f.file("note/own.md"), "owner: me\n") {
		t.Errorf("a key of the owner's own is lost: %q, %v", f.file("note/own.md"), err)
	}
	if n, err := f.v.Rescan(bg, f.db); n != 0 || err != nil {
		t.Errorf("nothing was edited, but %d, %v", n, err)
	}
	if rep, err := f.db.Verify(); err != nil || len(rep.Problems) > 0 {
		t.Errorf("%v, %v", rep.Problems, err)
	}
}

func TestPage_ALinkOutOfTheVaultIsNotFollowed(t *testing.T) {
	f := setUp(t)
	outside := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, f.path("note/link.md")); err != nil {
		t.Fatal(err)
	}
	if n, err := f.v.Rescan(bg, f.db); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "link", Body: "x"}); problem.CodeOf(err) != "wiki_page_not_read" {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(outside); string(b) != "secret" {
		t.Error("the file outside was written")
	}
}

func TestPage_AFailedCommitPutsTheFileBack(t *testing.T) {
	f := setUp(t)
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Body: "one"}); err != nil {
		t.Fatal(err)
	}
	was := f.file("note/plan.md")
	f.mem.Fail()
	if _, err := f.write(wiki.Draft{Kind: "note", Slug: "plan", Body: "two"}); err == nil {
		t.Fatal("acknowledged")
	}
	if got := f.file("note/plan.md"); got != was {
		t.Errorf("the file is %q", got)
	}
}

// A file that says a thing twice is not taken over, and who sees the page is
// not left to which of the two is read. Written anew, it says each thing once.
func TestPage_WhatIsSaidTwiceIsNotGuessed(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"shared":    {"---\ntitle: x\nshared: true\nentity: acme\nshared: true\n---\nby hand\n", `"shared" twice, in lines 3 and 5`},
		"entity":    {"---\nentity: acme\nentity: beta\n---\nby hand\n", `"entity" twice, in lines 2 and 3`},
		"a list":    {"---\ntags:\n  - a\n  - b\ntitle: x\ntags: [c]\n---\nby hand\n", `"tags" twice, in lines 2 and 6`},
		"of others": {"---\naliases: a\naliases: b\nentity: acme\n---\nby hand\n", ""},
		"in a list": {"---\ntags:\n  - shared: x\nshared: true\n---\nby hand\n", ""},
		"in a page": {"---\nentity: acme\n---\nentity: beta\nentity: gamma\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			if _, err := f.write(wiki.Draft{Kind: "note", Slug: "x", Body: "before", Entity: "acme"}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f.path("note/x.md"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			err := f.v.PickUp(bg, f.db, "note", "x")
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if problem.CodeOf(err) != wiki.CodeAmbiguous || !strings.Contains(err.Error(), "note/x.md gives "+c.says) {
				t.Errorf("%v, want %s", err, c.says)
			}
			if p := f.page("note/x"); p.Body != "before\n" || p.Entity != "acme" || p.Shared {
				t.Errorf("it was taken over: %+v", p)
			}
			// The daemon starts with such a file.
			if n, err := f.v.Rescan(bg, f.db); err != nil || n != 0 {
				t.Errorf("rescan: %d, %v", n, err)
			}
		})
	}
}
