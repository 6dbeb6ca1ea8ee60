package harness

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/messages/problem"
)

// Rules are what a program must be, beside being a sane ELF of this machine, a
// regular file and not writable by others.
type Rules struct {
	Linking contracts.Linking
	// RootMayOwn accepts a file of root's: for Sophia's own programs, which a
	// package may have installed. A harness belongs to the user.
	RootMayOwn bool
	// Data accepts what is no program: the other files of a vendor tree.
	Data bool
	// Hardlinks accepts more than one name: for the original of an adoption
	// (npm's Claude Code has two), which is copied and never run.
	Hardlinks bool
}

// Own are the rules for Sophia's own programs.
var Own = Rules{Linking: contracts.AnyLinking, RootMayOwn: true}

// Held is a verified program behind an open descriptor. Close it when the
// program has been started, or when it will not be.
type Held struct {
	f     *os.File
	id    messages.FileIdentity
	ctime unix.Timespec
	lease error // nil: a lease is held; else why there is none
}

// Hold opens path and verifies it in the order: the file's nature, the read
// lease, the ELF structure, the digest, and its nature again. ctx ends the
// hashing. Errors are *problem.Error with the codes of doc.go.
func Hold(ctx context.Context, path string, rules Rules) (*Held, error) {
	// O_NONBLOCK: opening a FIFO must not wait for its other end.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, refuse("managed_harness_symlink", path, "is a symbolic link", "Name the program itself, or adopt it: sophia harness adopt.")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, refuse("managed_harness_missing", path, "does not exist", "Install the harness and adopt it: sophia harness adopt.")
	case err != nil:
		return nil, problem.Wrap(err, "managed_harness_missing", "%s can't be opened", path)
	}
	h := &Held{f: os.NewFile(uintptr(fd), path)}
	if err := h.verify(ctx, path, rules); err != nil {
		h.f.Close()
		return nil, err
	}
	return h, nil
}

func refuse(code, path, what, hint string) *problem.Error {
	return problem.New(code, "%s %s", path, what).WithHint("%s", hint)
}

func (h *Held) verify(ctx context.Context, path string, rules Rules) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(h.f.Fd()), &st); err != nil {
		return problem.Wrap(err, "managed_harness_missing", "%s can't be examined", path)
	}
	if err := checkNature(path, &st, rules); err != nil {
		return err
	}
	if h.lease = takeLease(h.f); errors.Is(h.lease, errWriter) {
		return refuse("managed_harness_open_for_writing", path, "is open for writing in some process", "Wait until its installation has finished.")
	}
	if !rules.Data {
		if err := checkELF(h.f, st.Size, machine(), rules.Linking); err != nil {
			return err
		}
	}
	sum, err := digest(ctx, h.f, st.Size)
	if err != nil {
		return problem.Wrap(err, "managed_harness_identity_changed", "%s could not be read to its end", path)
	}
	h.id = messages.FileIdentity{Path: path, SHA256: sum, Device: st.Dev, Inode: st.Ino, Size: st.Size, Mode: st.Mode & 0o7777}
	h.ctime = st.Ctim
	return h.Recheck()
}

func checkNature(path string, st *unix.Stat_t, rules Rules) error {
	owner := int(st.Uid) == os.Geteuid() || rules.RootMayOwn && st.Uid == 0
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("managed_harness_not_regular", path, "is not a regular file", "Name the program itself.")
	case !rules.Hardlinks && st.Nlink != 1:
		return refuse("managed_harness_hardlinked", path, "has "+strconv.FormatUint(uint64(st.Nlink), 10)+" names (hard links), so another path can change it",
			"Adopt it: sophia harness adopt copies it into Sophia's own folder.")
	case !owner:
		return refuse("managed_harness_foreign_owner", path, "belongs to uid "+strconv.Itoa(int(st.Uid))+", not to you", "Adopt it: sophia harness adopt copies it into Sophia's own folder.")
	case st.Mode&0o022 != 0:
		return refuse("managed_harness_writable", path, "can be written by others", "Run: chmod go-w "+path)
	case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return refuse("managed_harness_not_regular", path, "is set-user-id or set-group-id", "Use the vendor's own build.")
	}
	return nil
}

// Identity is the file as it was verified.
func (h *Held) Identity() messages.FileIdentity { return h.id }

// Lease is nil while the kernel's read lease guards the file, and otherwise
// why it can't: a file system without leases, or a file of another owner.
func (h *Held) Lease() error { return h.lease }

// Compare refuses with managed_harness_identity_changed, naming the first
// field in which the held file differs from the recorded one.
func (h *Held) Compare(want messages.FileIdentity) error {
	return Compare(h.id, want)
}

// Compare is Held.Compare for two identities.
func Compare(have, want messages.FileIdentity) error {
	changed := func(field string, is, was any) error {
		return problem.New("managed_harness_identity_changed", "%s is not the program that was recorded: its %s is %v, recorded was %v", want.Path, field, is, was).
			WithHint("If you upgraded it yourself, adopt and witness it again: sophia harness adopt.")
	}
	switch {
	case have.Path != want.Path:
		return changed("path", have.Path, want.Path)
	case have.SHA256 != want.SHA256:
		return changed("sha256", have.SHA256, want.SHA256)
	case have.Device != want.Device:
		return changed("device", have.Device, want.Device)
	case have.Inode != want.Inode:
		return changed("inode", have.Inode, want.Inode)
	case have.Size != want.Size:
		return changed("size", have.Size, want.Size)
	case have.Mode != want.Mode:
		return changed("mode", have.Mode, want.Mode)
	}
	return nil
}

// Recheck is to be called right before and after the program is started: the
// lease unbroken, the descriptor's file unchanged in inode, size, mode, owner
// and change time, and the path still leading to it.
func (h *Held) Recheck() error {
	changed := func(what string) error {
		return problem.New("managed_harness_identity_changed", "%s changed while it was held: %s", h.id.Path, what).
			WithHint("Something replaces it right now, an updater perhaps. Start the launch again when it has finished.")
	}
	if h.lease == nil && !leaseHeld(h.f) {
		return changed("it was opened for writing")
	}
	var st, now unix.Stat_t
	if err := unix.Fstat(int(h.f.Fd()), &st); err != nil {
		return problem.Wrap(err, "managed_harness_identity_changed", "%s can't be examined any more", h.id.Path)
	}
	if st.Ctim != h.ctime || st.Size != h.id.Size || st.Mode&0o7777 != h.id.Mode {
		return changed("its content, mode, owner or name")
	}
	if err := unix.Lstat(h.id.Path, &now); err != nil || now.Dev != h.id.Device || now.Ino != h.id.Inode {
		return changed("its path leads elsewhere")
	}
	return nil
}

// DupAbove returns a second descriptor of the same file, close-on-exec and
// numbered at least min, to start the program through
// "/proc/self/fd/<number>".
//
// The number matters: a fork that places descriptors 0 to n for its child may
// use the numbers just above the highest that it is given as scratch space
// (syscall.forkExec does), so min must be well above all of them.
func (h *Held) DupAbove(min int) (*os.File, error) {
	fd, err := unix.FcntlInt(h.f.Fd(), unix.F_DUPFD_CLOEXEC, min)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), h.id.Path), nil
}

// Close gives up the descriptor and the lease.
func (h *Held) Close() error { return h.f.Close() }
