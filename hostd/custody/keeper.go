package custody

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness/contracts"
	"sophia/hostd/paths"
	"sophia/messages"
	"sophia/messages/problem"
)

// maxSize bounds a credential, bytes. Both harnesses' have a few kilobytes.
const maxSize = 1 << 20

// skew: an access token that ends this soon counts as expired, because a
// harness that starts now renews it.
const skew = 5 * time.Minute

// Keeper works on credential files. It is called by one custodian per file.
type Keeper struct {
	Contracts contracts.Set
	Kept      string           // where the overlay's side of a conflict is kept, 0700
	Now       func() time.Time // time.Now
}

// Expired tells whether a harness that starts with this real credential would
// renew it. A missing or unreadable one is not renewed.
func (k Keeper) Expired(_ context.Context, harness, real string) (bool, error) {
	c, err := k.Contracts.Get(harness)
	if err != nil || c.Credential == "" {
		return false, err
	}
	b, err := read(real, 0)
	defer clear(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, problem.Wrap(err, "credential_unreadable", "the credential of %s can't be read", c.Name).
			WithHint("See that %s is a file of yours.", real)
	}
	f := c.Form(b)
	return !f.Expires.IsZero() && f.Expires.Before(k.Now().Add(skew)), nil
}

// Settle compares the overlay's credential with what was copied and with the
// real file, and acts (see decide). It may be called while the launch still
// runs, and again: a second call for the same content changes nothing.
//
// Errors mean that nothing is decided and the overlay must be kept:
// credential_unreadable, credential_not_written.
func (k Keeper) Settle(ctx context.Context, note messages.CredentialCopy) (messages.CredentialOutcome, error) {
	c, err := k.Contracts.Get(note.Harness)
	if err != nil {
		return messages.CredentialOutcome{}, err
	}
	if c.Credential == "" {
		return messages.CredentialOutcome{Outcome: messages.CredentialNone}, nil
	}
	// The harness could have made it a link to anything.
	now, err := read(note.Copy, unix.O_NOFOLLOW)
	defer clear(now)
	malformed := spoiled(err)
	if err != nil && !malformed && !errors.Is(err, fs.ErrNotExist) {
		return messages.CredentialOutcome{}, problem.Wrap(err, "credential_unreadable", "the launch's credential can't be read")
	}
	if malformed {
		return messages.CredentialOutcome{Outcome: messages.CredentialMalformed, SHA256: note.SHA256}, nil
	}
	real, err := digestOf(note.Real)
	if err != nil {
		return messages.CredentialOutcome{}, problem.Wrap(err, "credential_unreadable", "the real credential can't be read").
			WithHint("See that %s is a file of yours; the agent's configuration home is kept.", note.Real)
	}
	out := messages.CredentialOutcome{Outcome: decide(note.SHA256, sum(now), real, c.Form(now)), SHA256: note.SHA256}
	if out.Outcome == messages.CredentialWrittenBack {
		if err := k.intend(note.Real, sum(now)); err != nil {
			return messages.CredentialOutcome{}, err
		}
		switch err := replace(note.Real, now, note.SHA256); {
		case errors.Is(err, errMoved):
			out.Outcome = messages.CredentialConflict
		case err != nil:
			return messages.CredentialOutcome{}, problem.Wrap(err, "credential_not_written", "the renewed credential could not be written back").
				WithHint("The agent's configuration home is kept. See that there is room on the disk of %s.", filepath.Dir(note.Real))
		default:
			out.SHA256 = sum(now)
		}
	}
	if out.Outcome == messages.CredentialConflict {
		if out.Kept, err = k.keep(note, c.Credential, now); err != nil {
			return messages.CredentialOutcome{}, err
		}
	}
	return out, ctx.Err()
}

// spoiled is an error that the agent can bring about and that no later try
// would do without: a link, a folder, a socket, a folder in the way that is
// none, or permissions taken away.
func spoiled(err error) bool {
	for _, e := range []error{errForm, unix.ELOOP, unix.ENOTDIR, unix.ENXIO, fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// keep stores the overlay's side of a conflict under a name that says which
// launch it is of and what it contains.
func (k Keeper) keep(note messages.CredentialCopy, name string, b []byte) (string, error) {
	if err := paths.MakePrivate(k.Kept); err != nil {
		return "", err
	}
	to := filepath.Join(k.Kept, fmt.Sprintf("%s-%s-%s", filepath.Base(note.Launch), sum(b)[:12], filepath.Base(name)))
	err := writeNew(to, b)
	if errors.Is(err, fs.ErrExist) {
		return to, nil // kept before: the name has its digest
	}
	if err != nil {
		return "", problem.Wrap(err, "credential_not_written", "the launch's credential could not be kept").
			WithHint("See that there is room on the disk of %s.", k.Kept)
	}
	return to, nil
}

var (
	errForm  = errors.New("not a regular file of this user's, or too large")
	errMoved = errors.New("the real file is not the one that was copied")
)

// replace puts b in the place of the file whose content has the digest want
// ("" for none), and only of that one: the two are exchanged in one step, and
// exchanged again if what came out is another. A harness of the owner's own
// may renew the file at the same moment.
func replace(name string, b []byte, want string) error {
	temp := filepath.Join(filepath.Dir(name), ".sophia-"+rand.Text()[:10])
	if err := writeNew(temp, b); err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			os.Remove(temp)
		}
	}()
	if want == "" {
		err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			return errMoved
		}
		if err != nil {
			return err
		}
		return syncDir(name)
	}
	exchange := func() error {
		return unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, name, unix.RENAME_EXCHANGE)
	}
	switch err := exchange(); {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		// A file system without exchange: look once more and replace.
		if have, err := digestOf(name); err != nil || have != want {
			return errors.Join(errMoved, err)
		}
		if err := os.Rename(temp, name); err != nil {
			return err
		}
		return syncDir(name)
	case errors.Is(err, unix.ENOENT):
		return errMoved
	case err != nil:
		return err
	}
	if out, err := digestOf(temp); err == nil && out == want {
		return syncDir(name)
	}
	// Back again. If somebody wrote in between, that is the newest and it comes
	// out now: it goes in once more.
	for ours := sum(b); ; {
		if err := exchange(); err != nil {
			keep = true // what came out is the owner's
			return errors.Join(errMoved, err)
		}
		if out, err := digestOf(temp); err == nil && out == ours {
			return errMoved
		}
	}
}

func writeNew(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(name)
	}
	return err
}

func syncDir(name string) error {
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// read reads a regular file of this user's.
func read(name string, flags int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Size > maxSize {
		return nil, errForm
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(b) > maxSize {
		clear(b)
		return nil, errForm
	}
	return b, err
}

// digestOf is the SHA-256 of a file in hex, "" when it is missing.
func digestOf(name string) (string, error) {
	b, err := read(name, 0)
	defer clear(b)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return sum(b), nil
}

// sum is "" for nil, which stands for a missing file.
func sum(b []byte) string {
	if b == nil {
		return ""
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
