package manifest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/messages/problem"
)

// FileName is the manifest's name in the launch's folder.
const FileName = "manifest.json"

// Write puts the manifest into a new file of mode 0600 and returns its digest,
// the one that Consume must be given. The file must not exist.
func Write(path string, m messages.Manifest) (digest string, err error) {
	b, err := Encode(m)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", problem.Wrap(err, "manifest_not_written", "can't create %s", path)
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
		return "", problem.Wrap(err, "manifest_not_written", "can't write %s", path)
	}
	return Digest(b), nil
}

// Consume reads the manifest at path and unlinks it, whatever it holds. The
// process whose unlink succeeds is the only one that gets the manifest. Errors:
//
//	manifest_missing          there is none: consumed before, or never written
//	manifest_malformed        no private regular file of this user, too large, not canonical
//	manifest_digest_mismatch  other bytes than the daemon wrote
//	manifest_expired          found after its expiry
func Consume(path, digest string, now time.Time) (messages.Manifest, error) {
	var none messages.Manifest
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return none, missing(err, path)
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return none, missing(err, path)
	case errors.Is(err, unix.ELOOP):
		return none, malformed("%s is a symbolic link", path)
	case err != nil:
		return none, problem.Wrap(err, "manifest_missing", "can't open the launch manifest %s", path)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := private(fd, path); err != nil {
		return none, err
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return none, malformed("it can't be read: %v", err)
	}
	// The unlink is the claim: of two hosts that opened it, one gets ENOENT.
	if err := unix.Unlinkat(dir, name, 0); err != nil {
		return none, missing(err, path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Nlink != 0 {
		return none, mismatch("it was replaced while it was read")
	}
	if len(b) > MaxSize {
		return none, malformed("it has more than %d bytes", MaxSize)
	}
	if Digest(b) != digest {
		return none, mismatch("its bytes are not those that the daemon wrote")
	}
	m, err := Decode(b)
	if err != nil {
		return none, err
	}
	if !now.Before(m.Expires) {
		return none, problem.New("manifest_expired", "The launch manifest expired at %s", m.Expires.Format(time.RFC3339)).
			WithHint("Start the agent again.")
	}
	return m, nil
}

func private(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return malformed("can't look at %s: %v", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return malformed("%s is not a regular file", path)
	case int(st.Uid) != os.Geteuid():
		return malformed("%s belongs to uid %d", path, st.Uid)
	case st.Mode&0o077 != 0:
		return malformed("%s has mode %#o; it must be 0600", path, st.Mode&0o777)
	case st.Nlink == 0: // another host's unlink came first
		return missing(unix.ENOENT, path)
	case st.Nlink != 1:
		return malformed("%s has %d names", path, st.Nlink)
	}
	return nil
}

func missing(cause error, path string) error {
	return problem.Wrap(cause, "manifest_missing", "There is no launch manifest at %s: it was consumed before, or never written", path).
		WithHint("A manifest is good for one start. Start the agent again.")
}

func mismatch(why string) error {
	return problem.New("manifest_digest_mismatch", "The launch manifest is refused: %s", why).
		WithHint("Nothing was started. Start the agent again, and find out what wrote into the launch folder.")
}
