package importcode

import (
	"reflect"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	f.Add("// Package p is it.\npackage p\nimport x \"a/b/v2\"\nfunc init() {}; func init() { x.Y[int](1) }\n")
	f.Add("package p; func (x.y) M() { f()()[1](); (g)(); a.b.c() }; var _, z = h(), func() { i() }")
	f.Add("package main\n//line other.go:99\nfunc broken( {\ntype T[P any] struct{ *T[P] }\nconst (A = iota; B)")
	f.Add("package p_test; type (a = b; c interface{ m() })")
	f.Fuzz(func(t *testing.T, src string) {
		files := []source{{"d/x.go", []byte(src)}, {"y.go", []byte(src)}}
		mods := map[string]string{".": "example.com/m"}
		g := parse("ws-1", "acme", files, mods)
		ids := map[string]bool{}
		for _, s := range g.Symbols {
			if ids[s.ID] || s.Start < 1 || s.End < s.Start || s.Entity != "acme" || s.File != "d/x.go" && s.File != "y.go" {
				t.Fatalf("symbol %+v, again: %v", s, ids[s.ID])
			}
			ids[s.ID] = true
		}
		for _, c := range g.Calls {
			if ids[c.ID] || c.Callee != "" && !ids[c.Callee] || !ids[c.Caller] {
				t.Fatalf("call %+v, again: %v", c, ids[c.ID])
			}
			if utf8.ValidString(src) && !utf8.ValidString(c.ID) {
				t.Fatalf("call %q", c.ID)
			}
			ids[c.ID] = true
		}
		if again := parse("ws-1", "acme", files, mods); !reflect.DeepEqual(g, again) {
			t.Fatal("the same code gives another graph")
		}
	})
}
