// Package blobs keeps large contents as files named by their SHA-256, so that
// they are written once and can be checked when they are read.
//
// Imports: messages/problem.
package blobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"sophia/messages/problem"
)

// Dir is a folder of blobs.
type Dir struct{ path string }

// Open uses a folder, and makes it with mode 0700.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir{}, problem.Wrap(err, "store_not_opened", "the folder of blobs %s can't be made", path)
	}
	return Dir{path}, nil
}

func (d Dir) file(sum string) string { return filepath.Join(d.path, sum[:2], sum) }

// Put keeps content and returns its SHA-256 in hex. It is on disk when Put
// returns. One that was damaged there is written anew.
func (d Dir) Put(content []byte) (string, error) {
	raw := sha256.Sum256(content)
	sum := hex.EncodeToString(raw[:])
	name := d.file(sum)
	if b, err := os.ReadFile(name); err == nil && bytes.Equal(b, content) {
		return sum, nil
	}
	switch err := os.Mkdir(filepath.Dir(name), 0o700); {
	case err == nil:
		if err := syncDir(d.path); err != nil {
			return "", err
		}
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return sum, syncDir(filepath.Dir(name))
}

// Get returns a content. Codes: blob_missing, blob_damaged.
func (d Dir) Get(sum string) ([]byte, error) {
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return nil, problem.New("blob_missing", "%q is not the SHA-256 of a blob", sum)
	}
	b, err := os.ReadFile(d.file(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.Wrap(err, "blob_missing", "the content %s is not on disk any more", sum[:12]).WithHint("Import its document again.")
	}
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum {
		return nil, problem.New("blob_damaged", "the content %s is damaged on disk", sum[:12]).WithHint("Import its document again.")
	}
	return b, nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
