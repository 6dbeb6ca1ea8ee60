package adopt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// Bounds of a vendor tree. Codex has 6 files and 310 MB.
const (
	maxFiles = 20_000
	maxBytes = 4 << 30
)

// node is one file of a tree.
type node struct {
	rel  string // with slashes
	size int64
	exec bool
	sum  string // hex
}

// walk calls f for the files below root in the order of their paths, and
// refuses what is neither file nor folder: a link would lead out of the tree.
func walk(ctx context.Context, root string, f func(rel string, info fs.FileInfo) error) error {
	files, bytes := 0, int64(0)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return problem.New("harness_tree_irregular", "%s in the vendor tree is not a regular file", rel).
				WithHint("Adopt from the vendor's own package.")
		}
		files++
		bytes += info.Size()
		if files > maxFiles || bytes > maxBytes {
			return problem.New("harness_tree_irregular", "the vendor tree at %s is larger than any harness", root).
				WithHint("Name the program itself.")
		}
		return f(filepath.ToSlash(rel), info)
	})
}

// Digest is a tree's digest in hex: SHA-256 over each file's path, executable
// bit, size and SHA-256, in the order of paths. Empty folders and times don't
// count.
func Digest(ctx context.Context, root string) (string, error) {
	var nodes []node
	err := walk(ctx, root, func(rel string, info fs.FileInfo) error {
		n := node{rel: rel, size: info.Size(), exec: info.Mode()&0o111 != 0}
		f, err := os.OpenFile(filepath.Join(root, rel), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		size, err := io.Copy(sum, &reader{ctx, f})
		if err != nil {
			return err
		}
		n.size, n.sum = size, hex.EncodeToString(sum.Sum(nil))
		nodes = append(nodes, n)
		return nil
	})
	return digest(nodes), err
}

func digest(nodes []node) string {
	sum := sha256.New()
	for _, n := range nodes {
		fmt.Fprintf(sum, "%q %v %d %s\n", n.rel, n.exec, n.size, n.sum)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// reader ends with its context: a tree takes seconds.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// copyFile copies one file into a new one, as a reflink where the file system
// can: such a copy shares the disk's blocks and nothing else.
func copyFile(ctx context.Context, from, to string, exec bool) (reflinked bool, err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, problem.New("harness_tree_irregular", "%s in the vendor tree is not a regular file", from)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	defer out.Close()
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		reflinked = true
	} else if _, err := io.Copy(out, &reader{ctx, in}); err != nil {
		return false, err
	}
	mode := fs.FileMode(0o444)
	if exec {
		mode = 0o555
	}
	if err := out.Chmod(mode); err != nil {
		return false, err
	}
	if err := out.Sync(); err != nil {
		return false, err
	}
	return reflinked, out.Close()
}
