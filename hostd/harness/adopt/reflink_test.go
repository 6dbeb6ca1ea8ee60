package adopt_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/hostd/harness/contracts"
	"sophia/testkit/harnesses"
)

// disk mounts a new file system of its own.
func disk(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	dir := harnesses.Scratch(t)
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	fatal(t, os.WriteFile(image, nil, 0o600))
	fatal(t, os.Truncate(image, 512<<20)) // sparse
	if out, err := exec.Command("mkfs."+kind, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v\n%s", kind, err, out) // .ci/setup installs it
	}
	fatal(t, os.Mkdir(at, 0o700))
	if out, err := exec.Command("mount", "-t", kind, "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("this machine mounts no loop device with %s: %v %s", kind, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return at
}

func free(t *testing.T, at string) int64 {
	t.Helper()
	d, err := os.Open(at)
	fatal(t, err)
	defer d.Close()
	fatal(t, unix.Syncfs(int(d.Fd())))
	var fs unix.Statfs_t
	fatal(t, unix.Statfs(at, &fs))
	return int64(fs.Bavail) * int64(fs.Bsize)
}

// On file systems that can, an adopted tree shares the blocks of the original:
// it takes no room, and is a copy all the same.
func TestAdopt_SharesBlocksWhereTheDiskCan(t *testing.T) {
	const size = 64 << 20
	for _, kind := range []string{"btrfs", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			at := disk(t, kind)
			a, elsewhere := adopter(t), vendor(t)
			a.Root = filepath.Join(at, "harnesses")
			root := filepath.Join(at, "vendor")
			fatal(t, os.CopyFS(root, os.DirFS(elsewhere)))
			fatal(t, os.Chmod(root+"/bin/whole", 0o755))
			big := root + "/helpers/model"
			fatal(t, os.WriteFile(big, bytes.Repeat([]byte("sophia 8"), size/8), 0o644))
			before := free(t, at)
			rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
			fatal(t, err)
			if took := before - free(t, at); !rec.Reflinked || took > size/4 {
				t.Errorf("reflinked: %v; it took %d bytes", rec.Reflinked, took)
			}
			tree := a.TreeOf(rec.Identity.Path)

			// The original is overwritten in place: not a byte of the copy changes.
			f, err := os.OpenFile(big, os.O_WRONLY, 0)
			fatal(t, err)
			_, err = f.Write(bytes.Repeat([]byte("other"), 1<<20))
			fatal(t, err)
			fatal(t, f.Close())
			fatal(t, adopt.VerifyTree(t.Context(), tree, rec.Tree))

			// And it can be held for a launch, guarded by the kernel.
			held, err := adopt.HoldTree(t.Context(), tree, rec.Tree, "bin/whole", harness.Rules{Linking: contracts.Static})
			fatal(t, err)
			defer held.Close()
			if !held.Guarded() {
				t.Error("no read lease on this file system")
			}

			// From another disk nothing can be shared.
			rec, err = a.Adopt(t.Context(), "whole", elsewhere+"/bin/whole")
			fatal(t, err)
			if rec.Reflinked {
				t.Error("reflinked from another file system")
			}
		})
	}
}
