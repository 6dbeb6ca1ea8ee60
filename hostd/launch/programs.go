package launch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/messages"
	"sophia/messages/problem"
)

// Programs are Sophia's own executables, which lie side by side.
type Programs struct{ Dir string }

// Installed is the folder that the running program lies in.
func Installed() (Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return Programs{}, problem.Wrap(err, "programs_not_found", "can't tell where this program lies")
	}
	return Programs{Dir: filepath.Dir(self)}, nil
}

// Path is where a program lies: sophia-host, sophia-wrapper, sophiad.
func (p Programs) Path(name string) string { return filepath.Join(p.Dir, name) }

// identities remembers digests of files that have not changed since: a file is
// hashed again when its inode, size or one of its times differs. It saves the
// second hashing between a plan's proposal and its approval; what is about to
// run is always hashed again through a held descriptor.
type identities struct {
	mu   sync.Mutex
	seen map[string]seen
}

type seen struct {
	stamp stamp
	id    messages.FileIdentity
}

type stamp struct {
	dev, ino     uint64
	size         int64
	mode         uint32
	mtime, ctime syscall.Timespec
}

func stampOf(path string) (stamp, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return stamp{}, err
	}
	return stamp{st.Dev, st.Ino, st.Size, st.Mode, st.Mtim, st.Ctim}, nil
}

// of returns the identity of a file, by identify unless nothing has changed.
func (i *identities) of(path string, identify func() (messages.FileIdentity, error)) (messages.FileIdentity, error) {
	now, err := stampOf(path)
	if err == nil {
		i.mu.Lock()
		known, ok := i.seen[path]
		i.mu.Unlock()
		if ok && known.stamp == now {
			return known.id, nil
		}
	}
	id, failed := identify()
	if failed != nil {
		return messages.FileIdentity{}, failed
	}
	if after, again := stampOf(path); err == nil && again == nil && after == now {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.seen == nil {
			i.seen = map[string]seen{}
		}
		i.seen[path] = seen{now, id}
	}
	return id, nil
}

func (i *identities) own(ctx context.Context, path string) (messages.FileIdentity, error) {
	return i.of(path, func() (messages.FileIdentity, error) { return harness.IdentifyOwn(ctx, path) })
}

// directory is the identity of a workspace's folder. Errors: workspace_missing.
func directory(path string) (messages.DirIdentity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return messages.DirIdentity{}, problem.Wrap(err, "workspace_missing", "the workspace's folder %s can't be read", path).
			WithHint("Register it again where it is now: sophia workspace add PATH")
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return messages.DirIdentity{}, problem.New("workspace_missing", "%s is not a folder", path).
			WithHint("Register the real path: sophia workspace add PATH")
	}
	return messages.DirIdentity{Path: path, Device: st.Dev, Inode: st.Ino}, nil
}
