package importdoc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/importdoc"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

type fixture struct {
	t    *testing.T
	db   *store.DB
	im   importdoc.Importer
	root string
}

func setUp(t *testing.T, files map[string]string) *fixture {
	db, _ := storetest.InMemory(t)
	texts, err := blobs.Open(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	importdoc.Attach(db, texts)
	f := &fixture{t, db, importdoc.Importer{DB: db, Write: db, Texts: texts}, t.TempDir()}
	for name, content := range files {
		f.write(name, content)
	}
	return f
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	p := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) run() importdoc.Summary {
	f.t.Helper()
	sum, err := f.im.Import(context.Background(), store.System("importer", ""), importdoc.Folder{Workspace: "ws-1", Path: f.root, Entity: "acme"})
	if err != nil {
		f.t.Fatal(err)
	}
	return sum
}

func (f *fixture) find(text string) []tables.Chunk {
	f.t.Helper()
	r := f.db.View(store.ScopeOf([]string{"acme"}))
	defer r.Close()
	p, err := r.Search(store.SearchQuery{Text: text, Tables: []*store.Def{tables.Chunks.Def()}})
	if err != nil {
		f.t.Fatal(err)
	}
	var out []tables.Chunk
	for _, h := range p.Hits {
		c, err := tables.Chunks.Get(r, h.Key)
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestImport_FindsPassagesWithTheirPlace(t *testing.T) {
	f := setUp(t, map[string]string{
		"README.md":              "# The guide\n\nWelcome.\n\n## Leases\n\nA lease ends after 3600 seconds.\n\n```sh\n# not a heading\n```\n",
		"src/main.go":            "package main\n\nfunc queryKnowledge() {}\n",
		"page.html":              "<title>Old  page</title><script>var hidden</script><p>Seen <b>by</b> readers</p><p>twice</p>",
		"empty.txt":              "",
		"picture.bin":            "\x00\x01\x02",
		"node_modules/x/a.md":    "never",
		".git/config":            "never",
		"bin/tool":               "never",
		"build/out.txt":          "ignored",
		"keep.log":               "kept",
		"other.log":              "ignored",
		".gitignore":             "/build/\n*.log\n!keep.log\n",
		"utf16.txt":              "\xff\xfew\x00i\x00d\x00e\x00",
		"deep/er/notes.md":       "no heading here",
		"deep/er/weird name.txt": "with space",
	})
	sum := f.run()
	if sum.Files != 10 || sum.Added != 10 || sum.Searchable != 8 || sum.Scanned != 2 {
		t.Errorf("%+v", sum)
	}
	got := f.find("lease seconds")
	if len(got) != 1 || got[0].Heading != "The guide › Leases" || got[0].Title != "The guide" {
		t.Fatalf("%+v", got)
	}
	raw, _ := os.ReadFile(filepath.Join(f.root, "README.md"))
	if c := got[0]; string(raw[c.Start:c.End]) != c.Text || !strings.Contains(c.Text, "3600") {
		t.Errorf("the offsets say %q, the passage %q", raw[c.Start:c.End], c.Text)
	}
	if got := f.find("knowledge"); len(got) != 1 || got[0].Path != "src/main.go" {
		t.Errorf("in source: %+v", got)
	}
	if got := f.find("readers"); len(got) != 1 || got[0].Title != "Old page" || got[0].Text != "Old page\nSeen by readers\ntwice" {
		t.Errorf("in HTML: %+v", got)
	}
	for _, word := range []string{"never", "ignored", "hidden"} {
		if got := f.find(word); len(got) != 0 {
			t.Errorf("%s: %+v", word, got)
		}
	}
	if got := f.find("wide"); len(got) != 1 {
		t.Errorf("UTF-16: %+v", got)
	}
}

func TestImport_AgainChangesOnlyWhatChanged(t *testing.T) {
	f := setUp(t, map[string]string{"a.md": "# A\n\nfirst words", "b.md": "# B\n\nsecond words"})
	f.run()
	before, _ := f.db.Head()
	if sum := f.run(); sum.Unchanged != 2 || sum.Added+sum.Changed+sum.Gone != 0 {
		t.Errorf("%+v", sum)
	}
	if after, _ := f.db.Head(); after != before {
		t.Errorf("%d journal entries for nothing", after-before)
	}
	f.write("a.md", "# A\n\nthird words")
	if err := os.Remove(filepath.Join(f.root, "b.md")); err != nil {
		t.Fatal(err)
	}
	if sum := f.run(); sum.Changed != 1 || sum.Gone != 1 {
		t.Errorf("%+v", sum)
	}
	if got := f.find("first"); len(got) != 0 {
		t.Errorf("old text: %+v", got)
	}
	if got := f.find("second"); len(got) != 0 {
		t.Errorf("text of a file that is gone: %+v", got)
	}
	if got := f.find("third"); len(got) != 1 {
		t.Errorf("new text: %+v", got)
	}
	// The time machine brings text and passages back.
	r := f.db.View(store.Owner())
	defer r.Close()
	m, err := r.Mutations(store.MutationQuery{Table: "documents", Key: importdoc.ID("ws-1", "a.md")})
	if err != nil || m.Total != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := store.Revert(context.Background(), f.db, store.System("owner", ""), m.Items[0].Seq, false); err != nil {
		t.Fatal(err)
	}
	if got := f.find("first"); len(got) != 1 {
		t.Errorf("after the revert: %+v", got)
	}
	f.write("b.md", "# B\n\nsecond words")
	if sum := f.run(); sum.Added != 1 {
		t.Errorf("a file that came back: %+v", sum)
	}
	if got := f.find("second"); len(got) != 1 {
		t.Errorf("a file that came back: %+v", got)
	}
	rep, err := f.db.Verify()
	if err != nil || len(rep.Problems) > 0 {
		t.Errorf("%v, %v", rep.Problems, err)
	}
}

func TestImport_TextTooLargeForOneCommitStaysScanned(t *testing.T) {
	m := storetest.NewMemory()
	m.MaxOps = 3000
	db, err := store.Open(store.Options{HighWater: filepath.Join(t.TempDir(), "hw"), Tables: tables.All(), Engine: m})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	texts, err := blobs.Open(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	importdoc.Attach(db, texts)
	f := &fixture{t, db, importdoc.Importer{DB: db, Write: db, Texts: texts}, t.TempDir()}
	var many strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&many, "word%d\n", i)
	}
	f.write("a.txt", "one small text")
	f.write("b.txt", many.String())
	f.write("c.txt", strings.Repeat("much of the same ", 1<<20/17+1))
	f.write("d.txt", "another small text")
	if sum := f.run(); sum.Searchable != 2 || sum.Scanned != 2 {
		t.Errorf("%+v", sum)
	}
	if sum := f.run(); sum.Unchanged != 4 {
		t.Errorf("again: %+v", sum)
	}
	if got := f.find("small"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	r := db.View(store.Owner())
	defer r.Close()
	for _, name := range []string{"b.txt", "c.txt"} {
		d, err := tables.Documents.Get(r, importdoc.ID("ws-1", name))
		if err != nil || d.Tier != tables.TierScanned || d.Why != "too_large" {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

func FuzzExtract(f *testing.F) {
	f.Add("a.html", []byte("<title>x</title><p>a<br>b<script>c</p>"))
	f.Add("a.md", []byte("# x\n```\n# y\n~~~\n```\n## z ##\n"))
	f.Add("a.txt", []byte("\xff\xfea\x00"))
	f.Add("a", []byte("\xef\xbb\xbfhello"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		text, _, mime, why := importdoc.Extract(name, content)
		if (text == "") != (why != "") && strings.TrimSpace(text) != "" {
			t.Fatalf("text %q and reason %q", text, why)
		}
		if !strings.Contains(mime, "/") {
			t.Fatalf("type %q", mime)
		}
	})
}
