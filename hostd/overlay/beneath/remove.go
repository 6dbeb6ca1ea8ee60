package beneath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrMount: a file system is mounted inside; deleting would reach into it.
var ErrMount = errors.New("a file system is mounted inside")

// maxDepth bounds how many descriptors a removal holds. What lies deeper is
// moved up and removed from there.
const maxDepth = 32

// Remove deletes what is at rel and everything in it. Symbolic links are deleted
// and never followed, on the way neither, folders without permissions are opened
// up, other file systems are not entered. Where the way does not lead to
// anything there is nothing to delete, and no error.
func (d *Dir) Remove(rel string) error {
	if rel == "." || !local(rel) {
		return d.fail("remove", rel, unix.EXDEV)
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return d.fail("remove", rel, err)
	}
	r, at := &removal{device: st.Dev}, d.fd
	way := strings.Split(rel, "/")
	for _, name := range way[:len(way)-1] {
		fd, err := r.enter(at, name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) { // a link is no directory either
			return nil
		}
		if err != nil {
			return d.fail("remove", rel, err)
		}
		defer unix.Close(fd)
		at = fd
	}
	return d.fail("remove", rel, r.remove(at, way[len(way)-1], 0))
}

type removal struct {
	device uint64
	under  int // the descriptor of the folder being removed
	moved  int // how much was moved up into it
	serial int
}

func (r *removal) remove(at int, name string, depth int) error {
	err := unix.Unlinkat(at, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return err
	}
	fd, err := r.enter(at, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if depth == 0 {
		r.under = fd
	}
	for tries := 0; ; {
		before := r.moved
		if err := r.empty(f, depth); err != nil {
			return err
		}
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		// Something was moved up into it, or a file system lost its place in
		// the listing while entries went away, or somebody still writes.
		if depth != 0 || r.moved == before {
			if tries++; tries > 3 {
				return err
			}
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// empty removes what a folder lists.
func (r *removal) empty(f *os.File, depth int) error {
	fd := int(f.Fd())
	for {
		names, err := f.Readdirnames(256)
		for _, n := range names {
			if depth >= maxDepth && r.moveUp(fd, n) {
				continue
			}
			if err := r.remove(fd, n, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// moveUp moves a folder that lies too deep to the top; it tells whether it did.
func (r *removal) moveUp(at int, name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Dev != r.device {
		return false
	}
	for {
		r.serial++
		err := unix.Renameat2(at, name, r.under, ".deep-"+strconv.Itoa(r.serial), unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err == nil {
			r.moved++
		}
		return err == nil
	}
}

// enter opens a folder for reading and deleting in it. It stays on the same
// file system.
func (r *removal) enter(at int, name string) (int, error) {
	dir, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return -1, err
	}
	if st.Dev != r.device {
		return -1, fmt.Errorf("%w: %s", ErrMount, name)
	}
	if st.Mode&0o700 != 0o700 {
		// By the descriptor: the name may lead elsewhere by now.
		if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(dir), 0o700); err != nil {
			return -1, err
		}
	}
	return unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
