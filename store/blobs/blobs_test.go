package blobs_test

import (
	"os"
	"path/filepath"
	"testing"

	"sophia/messages/problem"
	"sophia/store/blobs"
)

func TestBlobs_KeptOnceAndCheckedWhenRead(t *testing.T) {
	dir := t.TempDir()
	d, err := blobs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := d.Put([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.Put([]byte("hello")); err != nil || again != sum {
		t.Fatalf("%s, %v", again, err)
	}
	if got, err := d.Get(sum); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, sum[:2], sum), []byte("hellO"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(sum); problem.CodeOf(err) != "blob_damaged" {
		t.Errorf("damaged: %v", err)
	}
	if _, err := d.Put([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(sum); err != nil || string(got) != "hello" {
		t.Errorf("put again after the damage, as the error advises: %q, %v", got, err)
	}
	for _, bad := range []string{"", "../../etc/passwd", sum[:10], "zz"} {
		if _, err := d.Get(bad); problem.CodeOf(err) != "blob_missing" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
