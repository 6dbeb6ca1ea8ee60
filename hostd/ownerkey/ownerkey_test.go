package ownerkey_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/ownerkey"
	"sophia/messages/problem"
)

func TestOwnerKey_StaysTheSameAndIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.key")
	first, err := ownerkey.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v, want a regular file of 0600", info.Mode())
	}
	second, err := ownerkey.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.ID() != second.ID() {
		t.Error("a second start made another key")
	}
	signature, err := second.Sign(nil, []byte("hello"), crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(first.Public().(ed25519.PublicKey), []byte("hello"), signature) {
		t.Error("the signature of one does not verify with the other")
	}
	litter, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".owner-key-*"))
	if len(litter) != 0 {
		t.Errorf("left behind: %v", litter)
	}
}

func TestOwnerKey_TwoProgramsAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner.key")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			key, err := ownerkey.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = key.ID()
			key.Close()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("different keys: %v", ids)
		}
	}
}

func TestOwnerKey_Refusals(t *testing.T) {
	write := func(text string, mode os.FileMode) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	good := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "k")
		key, err := ownerkey.LoadOrCreate(path)
		if err != nil {
			t.Fatal(err)
		}
		key.Close()
		return path
	}
	cases := []struct {
		name, code string
		prepare    func(t *testing.T, path string)
	}{
		{"none", "owner_key_missing", func(*testing.T, string) {}},
		{"readable by the group", "owner_key_not_private", write("x", 0o640)},
		{"empty", "owner_key_malformed", write("", 0o600)},
		{"not a key", "owner_key_malformed", write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600)},
		{"huge", "owner_key_malformed", write(string(bytes.Repeat([]byte("a"), 1<<20)), 0o600)},
		{"symbolic link", "owner_key_not_private", func(t *testing.T, path string) {
			if err := os.Symlink(good(t), path); err != nil {
				t.Fatal(err)
			}
		}},
		{"folder", "owner_key_not_private", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"pipe", "owner_key_not_private", func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "owner.key")
			c.prepare(t, path)
			key, err := ownerkey.Load(path)
			if code := problem.CodeOf(err); code != c.code {
				t.Fatalf("code %q (%v, key %v), want %q", code, err, key, c.code)
			}
			if c.code == "owner_key_missing" {
				return
			}
			// What is there is never replaced behind the owner's back.
			if _, err := ownerkey.LoadOrCreate(path); problem.CodeOf(err) != c.code {
				t.Fatalf("LoadOrCreate: %v, want %q", err, c.code)
			}
		})
	}
}

func TestOwnerKey_ClosedSignsNoMore(t *testing.T) {
	key, err := ownerkey.LoadOrCreate(filepath.Join(t.TempDir(), "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	signature, err := key.Sign(nil, []byte("m"), nil)
	if err != nil || len(signature) != ed25519.SignatureSize {
		t.Fatal(signature, err)
	}
	if _, err := key.Sign(nil, make([]byte, 32), crypto.SHA256); err == nil {
		t.Error("signed a digest")
	}
	key.Close()
	if _, err := key.Sign(nil, []byte("m"), nil); err == nil {
		t.Error("signed after it was closed")
	}
}
