package programs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlace_CopyHasOneLinkAndIsExecutable(t *testing.T) {
	from := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(from, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "b")
	if err := place(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(from, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil || string(got) != "bytes" {
		t.Fatalf("copy has %q, %v", got, err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
}

func TestModuleRoot_IsWhereGoModLies(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
}
