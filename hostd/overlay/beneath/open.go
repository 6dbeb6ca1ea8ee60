package beneath

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// openAt opens rel below d. flags without O_CLOEXEC, which is added.
func (d *Dir) openAt(rel string, flags int, mode uint32) (int, error) {
	if !local(rel) {
		return -1, unix.EXDEV // what RESOLVE_BENEATH says
	}
	if !d.walk {
		fd, err := openat2(d.fd, rel, flags, mode)
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return fd, err
		}
		// A kernel before 5.6, or a seccomp filter that does not know the call:
		// Docker's old one answers EPERM.
		fd, err2 := openWalking(d.fd, rel, flags, mode)
		if err2 == nil || !errors.Is(err2, unix.EPERM) {
			return fd, err2
		}
		return fd, err
	}
	return openWalking(d.fd, rel, flags, mode)
}

func openat2(at int, rel string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(at, rel, &how)
		// EAGAIN: something was renamed meanwhile (openat2(2)).
		if try < 16 && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) {
			continue
		}
		return fd, err
	}
}

func openWalking(at int, rel string, flags int, mode uint32) (int, error) {
	parts := strings.Split(rel, "/")
	dir := at
	defer func() {
		if dir != at {
			unix.Close(dir)
		}
	}()
	for _, part := range parts[:len(parts)-1] {
		next, err := unix.Openat(dir, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			if errors.Is(err, unix.ENOTDIR) && isLink(dir, part) {
				err = unix.ELOOP // as openat2 says it
			}
			return -1, err
		}
		if dir != at {
			unix.Close(dir)
		}
		dir = next
	}
	last := parts[len(parts)-1]
	fd, err := unix.Openat(dir, last, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if errors.Is(err, unix.ENOTDIR) && isLink(dir, last) {
		err = unix.ELOOP
	}
	return fd, err
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// local: relative, clean, and staying below.
func local(rel string) bool {
	return rel != "" && path.Clean(rel) == rel && !path.IsAbs(rel) && rel != ".." && !strings.HasPrefix(rel, "../") && !strings.ContainsRune(rel, 0)
}
