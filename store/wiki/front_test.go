package wiki

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzFrontMatter(f *testing.F) {
	v := &Vault{key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	for _, s := range []string{
		"", "---\n---\n", "---\ntitle: a: b\n---\nx", "\ufeff---\r\ntitle: \"q\\\"\"\r\ntags: [a, 'b']\r\n---\r\nbody\r\n",
		"---\nshared: true\nx: y\nshared: true\ntitle: a\ntitle:\n- b\n---\n", "---\ntags:\n- a\n  - b\n---\n---\ntitle: x\n---\n", "---\nnever closed\n", "--- \ndate: 2026-01-01\nsignature: ed25519:AAAA\n...\n# h [[a|b]] [[c#d]]",
	} {
		f.Add(s, "title", "tag")
	}
	f.Fuzz(func(t *testing.T, file, title, tag string) {
		if !utf8.ValidString(file) || !utf8.ValidString(title) || !utf8.ValidString(tag) {
			t.Skip()
		}
		old := v.parse("note", "x", file, time.Time{})
		if old.Signature == Signed {
			t.Fatal("a signature out of nothing")
		}
		if !strings.HasSuffix(file, old.Body) {
			t.Fatalf("the body of %q is %q", file, old.Body)
		}
		p, err := v.compose(Draft{Kind: "note", Slug: "x", Title: title, Body: old.Body, Tags: []string{tag}}, &old)
		if err != nil {
			t.Fatal(err)
		}
		written, _, _ := cut(p.File)
		if key, _, _ := written.twice(); key != "" {
			t.Fatalf("%q says %s twice", p.File, key)
		}
		if p.Signature != Signed {
			t.Fatalf("%q is not signed: %s", p.File, p.Signature)
		}
		if want := strings.Join(strings.Fields(title), " "); want != "" && p.Title != want {
			t.Fatalf("title %q comes back as %q in %q", title, p.Title, p.File)
		}
		again, err := v.compose(Draft{Kind: "note", Slug: "x", Title: title, Body: p.Body, Tags: []string{tag}}, &p)
		if err != nil || again.File != p.File {
			t.Fatalf("written again: %q, then %q, %v", p.File, again.File, err)
		}
	})
}
