package beneath_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/overlay/beneath"
)

// both runs a test with openat2 and with the walk that replaces it.
func both(t *testing.T, f func(t *testing.T, d *beneath.Dir, path string)) {
	for _, mode := range []string{"openat2", "walking"} {
		t.Run(mode, func(t *testing.T) {
			path := t.TempDir()
			fatal(t, os.Chmod(path, 0o700))
			d, err := beneath.Open(path)
			fatal(t, err)
			defer d.Close()
			if mode == "walking" {
				d = d.Walking()
			}
			f(t, d, path)
		})
	}
}

func TestDir_MakesPrivateThingsOnce(t *testing.T) {
	both(t, func(t *testing.T, d *beneath.Dir, path string) {
		sub, err := d.Mkdir("overlay")
		fatal(t, err)
		defer sub.Close()
		fatal(t, sub.MkdirAll("a/b"))
		fatal(t, sub.Create("a/b/f", []byte("x")))
		if b, err := d.Read("overlay/a/b/f", 1); err != nil || string(b) != "x" {
			t.Fatal(b, err)
		}
		for p, want := range map[string]fs.FileMode{"overlay": 0o700 | fs.ModeDir, "overlay/a/b": 0o700 | fs.ModeDir, "overlay/a/b/f": 0o600} {
			if st, err := os.Lstat(filepath.Join(path, p)); err != nil || st.Mode() != want {
				t.Errorf("%s: %v %v", p, st.Mode(), err)
			}
		}
		if _, err := d.Mkdir("overlay"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("made twice: %v", err)
		}
		if err := sub.Create("a/b/f", nil); !errors.Is(err, fs.ErrExist) {
			t.Errorf("written twice: %v", err)
		}
	})
}

func TestDir_FollowsNoLink(t *testing.T) {
	both(t, func(t *testing.T, d *beneath.Dir, path string) {
		outside := t.TempDir()
		fatal(t, os.Chmod(outside, 0o700))
		fatal(t, os.WriteFile(filepath.Join(outside, "f"), []byte("theirs"), 0o600))
		fatal(t, os.Symlink(outside, filepath.Join(path, "link")))
		fatal(t, os.Symlink(filepath.Join(outside, "f"), filepath.Join(path, "file")))
		fatal(t, os.Symlink(filepath.Join(outside, "new"), filepath.Join(path, "dangling")))
		for name, err := range map[string]error{
			"read through a folder":  second(d.Read("link/f", 100)),
			"read a link":            second(d.Read("file", 100)),
			"create through a link":  d.Create("link/x", nil),
			"open a linked folder":   second(d.Sub("link")),
			"make below a link":      d.MkdirAll("link/x/y"),
			"make directly below it": d.MkdirAll("link/x"),
		} {
			if !errors.Is(err, unix.ELOOP) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := d.Create("dangling", []byte("x")); err == nil {
			t.Error("created through a dangling link")
		}
		if left, _ := os.ReadDir(outside); len(left) != 1 {
			t.Errorf("something was made outside: %v", left)
		}
	})
}

func TestDir_StaysBelow(t *testing.T) {
	both(t, func(t *testing.T, d *beneath.Dir, path string) {
		for _, rel := range []string{"..", "../x", "/etc/passwd", "a/../../x", "", "a//b", "./a", "a\x00b"} {
			if _, err := d.Read(rel, 1); !errors.Is(err, unix.EXDEV) {
				t.Errorf("read %q: %v", rel, err)
			}
			if err := d.Create(rel, nil); !errors.Is(err, unix.EXDEV) {
				t.Errorf("create %q: %v", rel, err)
			}
		}
		if err := d.Remove(".."); !errors.Is(err, unix.EXDEV) {
			t.Errorf("remove ..: %v", err)
		}
	})
}

func TestDir_ReadIsBoundedAndRegular(t *testing.T) {
	both(t, func(t *testing.T, d *beneath.Dir, path string) {
		fatal(t, d.Create("big", make([]byte, 100)))
		if _, err := d.Read("big", 99); !errors.Is(err, beneath.ErrTooLarge) {
			t.Error(err)
		}
		fatal(t, unix.Mkfifo(filepath.Join(path, "fifo"), 0o600))
		if _, err := d.Read("fifo", 99); !errors.Is(err, beneath.ErrRegular) {
			t.Error(err)
		}
	})
}

func TestOpen_RefusesWhatIsNotPrivate(t *testing.T) {
	dir := t.TempDir()
	fatal(t, os.Chmod(dir, 0o750))
	if _, err := beneath.Open(dir); !errors.Is(err, beneath.ErrOpen) {
		t.Errorf("group may enter: %v", err)
	}
	fatal(t, os.Chmod(dir, 0o700))
	fatal(t, os.Symlink(dir, dir+"-link"))
	defer os.Remove(dir + "-link")
	if _, err := beneath.Open(dir + "-link"); err == nil {
		t.Error("opened a link")
	}
	if os.Geteuid() == 0 {
		fatal(t, os.Chown(dir, 12345, 12345))
		if _, err := beneath.Open(dir); !errors.Is(err, beneath.ErrForeign) {
			t.Errorf("foreign: %v", err)
		}
		fatal(t, os.Chown(dir, 0, 0))
	}
}

func TestRemove_TakesAllAndNothingElse(t *testing.T) {
	both(t, func(t *testing.T, d *beneath.Dir, path string) {
		outside := t.TempDir()
		fatal(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600))
		fatal(t, d.MkdirAll("o/a/b"))
		fatal(t, d.MkdirAll("beside"))
		fatal(t, os.Symlink(outside, filepath.Join(path, "o/a/link")))
		fatal(t, os.Link(filepath.Join(outside, "keep"), filepath.Join(path, "o/hard")))
		fatal(t, unix.Mkfifo(filepath.Join(path, "o/fifo"), 0))
		for i := range 600 {
			fatal(t, os.WriteFile(filepath.Join(path, "o/a/b", strings.Repeat("n", i%200+1)+string(rune('a'+i%26))+string(rune('a'+i/26))), nil, 0o600))
		}
		fatal(t, os.Chmod(filepath.Join(path, "o/a/b"), 0))
		fatal(t, d.Remove("o"))
		fatal(t, d.Remove("o")) // again is no error
		left, err := os.ReadDir(path)
		fatal(t, err)
		if len(left) != 1 || left[0].Name() != "beside" {
			t.Errorf("left %v", left)
		}
		if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
			t.Error("a link was followed")
		}
	})
}

// Deeper than PATH_MAX and than there are descriptors for.
func TestRemove_AnyDepth(t *testing.T) {
	dir := t.TempDir()
	fatal(t, os.Chmod(dir, 0o700))
	d, err := beneath.Open(dir)
	fatal(t, err)
	defer d.Close()
	at, err := d.Mkdir("o")
	fatal(t, err)
	for range 3000 {
		next, err := at.Mkdir("deep")
		fatal(t, err)
		at.Close()
		at = next
	}
	fatal(t, at.Create("bottom", nil))
	at.Close()
	var was unix.Rlimit
	fatal(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	fatal(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: was.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	fatal(t, d.Remove("o"))
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestRemove_DoesNotReachIntoAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	fatal(t, os.Chmod(dir, 0o700))
	d, err := beneath.Open(dir)
	fatal(t, err)
	defer d.Close()
	fatal(t, d.MkdirAll("o/mnt"))
	mnt := filepath.Join(dir, "o/mnt")
	if err := unix.Mount("none", mnt, "tmpfs", 0, ""); err != nil {
		t.Skip("mounting is not permitted here: ", err)
	}
	defer unix.Unmount(mnt, 0)
	fatal(t, os.WriteFile(filepath.Join(mnt, "theirs"), nil, 0o600))
	if err := d.Remove("o"); !errors.Is(err, beneath.ErrMount) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(mnt, "theirs")); err != nil {
		t.Error("it reached into the mount")
	}
}

func second[T any](_ T, err error) error { return err }

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
