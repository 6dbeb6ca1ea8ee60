package seal_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
	"sophia/store/seal"
)

func sealer(t testing.TB, b byte) *seal.Sealer {
	s, err := seal.New(bytes.Repeat([]byte{b}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestID_ComesBackAndTellsNothing(t *testing.T) {
	s := sealer(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		id := s.ID("mut-", n)
		if got, ok := s.Number("mut-", id); !ok || got != n {
			t.Fatalf("%d comes back as %d, %v", n, got, ok)
		}
		if _, ok := s.Number("doc-", id); ok {
			t.Fatal("an identifier of one kind passes for another")
		}
	})
	if a, b := s.ID("mut-", 1), s.ID("mut-", 2); a[4:10] == b[4:10] {
		t.Errorf("%s and %s are alike", a, b)
	}
}

func TestCursor_OnlyForTheSameConnectionAndQuery(t *testing.T) {
	s := sealer(t, 1)
	c := s.Cursor([]byte("here"), "conn-1 q")
	if got, err := s.Position(c, "conn-1 q"); err != nil || string(got) != "here" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another connection": func() ([]byte, error) { return s.Position(c, "conn-2 q") },
		"another store":      func() ([]byte, error) { return sealer(t, 2).Position(c, "conn-1 q") },
		"cut":                func() ([]byte, error) { return s.Position(c[:len(c)-2], "conn-1 q") },
		"empty":              func() ([]byte, error) { return s.Position("", "conn-1 q") },
	} {
		if got, err := open(); problem.CodeOf(err) != "cursor_invalid" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzPosition(f *testing.F) {
	s := sealer(f, 1)
	f.Add(s.Cursor([]byte("here"), "b"))
	f.Add("AAAA")
	good := map[string]bool{s.Cursor([]byte("x"), "b"): true}
	f.Fuzz(func(t *testing.T, cursor string) {
		if got, err := s.Position(cursor, "other"); err == nil && !good[cursor] {
			t.Fatalf("%q opens as %q", cursor, got)
		}
	})
}
