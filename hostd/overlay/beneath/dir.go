package beneath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Errors beside those of the system. A symbolic link on the way is
// syscall.ELOOP, a path that leaves the folder syscall.EXDEV.
var (
	ErrForeign  = errors.New("the folder belongs to somebody else")
	ErrOpen     = errors.New("the folder can be entered by others")
	ErrTooLarge = errors.New("the file is too large")
	ErrRegular  = errors.New("not a regular file")
)

// Dir is an open folder of this user's that nobody else can enter.
type Dir struct {
	fd   int
	path string // for messages only
	walk bool   // resolve without openat2
}

// Open opens an absolute path. Symbolic links on the way to it are followed,
// the last component must not be one. The folder must be this user's, with
// nothing for group and others.
func Open(dir string) (*Dir, error) {
	fd, err := unix.Open(filepath.Clean(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return newDir(fd, dir, false)
}

func newDir(fd int, name string, walk bool) (*Dir, error) {
	d := &Dir{fd: fd, path: name, walk: walk}
	if err := d.Check(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Check looks again whether the folder is private.
func (d *Dir) Check() error {
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	switch {
	case err != nil:
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("%w: uid %d", ErrForeign, st.Uid)
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("%w: mode %#o", ErrOpen, st.Mode&0o777)
	default:
		return nil
	}
	return d.fail("check", ".", err)
}

// Path is where the folder was when it was opened.
func (d *Dir) Path() string { return d.path }

// Close gives up the descriptor.
func (d *Dir) Close() error { return unix.Close(d.fd) }

func (d *Dir) fail(op, rel string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path.Join(d.path, rel), Err: err}
}

// Mkdir makes a fresh folder of mode 0700 directly below and opens it. What is
// there already is fs.ErrExist.
func (d *Dir) Mkdir(name string) (*Dir, error) {
	if !local(name) || path.Base(name) != name {
		return nil, d.fail("mkdir", name, unix.EXDEV)
	}
	if err := unix.Mkdirat(d.fd, name, 0o700); err != nil {
		return nil, d.fail("mkdir", name, err)
	}
	return d.Sub(name)
}

// Sub opens a folder below.
func (d *Dir) Sub(rel string) (*Dir, error) {
	fd, err := d.openAt(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	return newDir(fd, path.Join(d.path, rel), d.walk)
}

// MkdirAll makes the folders on the way to rel that are missing, mode 0700.
func (d *Dir) MkdirAll(rel string) error {
	if rel == "." {
		return nil
	}
	if !local(rel) {
		return d.fail("mkdir", rel, unix.EXDEV)
	}
	if err := d.MkdirAll(path.Dir(rel)); err != nil {
		return err
	}
	parent, name := d.fd, path.Base(rel)
	if up := path.Dir(rel); up != "." {
		sub, err := d.Sub(up)
		if err != nil {
			return err
		}
		defer sub.Close()
		parent = sub.fd
	}
	if err := unix.Mkdirat(parent, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return d.fail("mkdir", rel, err)
	}
	return nil
}

// Create writes a new file of mode 0600 and syncs nothing: what lies in a
// launch's folder is gone after a reboot anyway. What is there already is
// fs.ErrExist.
func (d *Dir) Create(rel string, data []byte) error {
	fd, err := d.openAt(rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return d.fail("create", rel, err)
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return d.fail("write", rel, err)
	}
	return f.Close()
}

// Read reads a regular file of at most max bytes.
func (d *Dir) Read(rel string, max int64) ([]byte, error) {
	fd, err := d.openAt(rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, d.fail("stat", rel, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, d.fail("read", rel, ErrRegular)
	}
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, d.fail("read", rel, err)
	}
	if int64(len(b)) > max {
		clear(b)
		return nil, d.fail("read", rel, ErrTooLarge)
	}
	return b, nil
}
