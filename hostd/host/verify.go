package host

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/messages/problem"
)

// verified is what was checked and is held open until the harness runs.
type verified struct {
	harness   *harness.Held
	workspace *os.File
}

func (v *verified) close() {
	if v.harness != nil {
		v.harness.Close()
	}
	if v.workspace != nil {
		v.workspace.Close()
	}
}

// verify compares every file of the manifest with the disk, byte for byte, and
// the workspace by device and inode. Codes: host_identity_changed,
// managed_harness_identity_changed (and the others of package harness),
// wrapper_identity_changed, launcher_identity_changed, workspace_changed.
func verify(ctx context.Context, m messages.Manifest) (*verified, error) {
	v := &verified{}
	var own, wrapper, launcher, held, dir error
	var wg sync.WaitGroup // hashing is most of the time of a start
	wg.Go(func() { own = ownExecutable(ctx, m.Host) })
	wg.Go(func() { wrapper = program(ctx, m.Wrapper, "wrapper_identity_changed") })
	wg.Go(func() { launcher = program(ctx, m.Launcher, "launcher_identity_changed") })
	wg.Go(func() { v.workspace, dir = workspace(m.Workspace) })
	wg.Go(func() {
		// How a harness may be linked is its contract's matter and was checked
		// by the daemon; here these very bytes must be the recorded ones.
		v.harness, held = harness.Hold(ctx, m.Harness.Path, harness.Rules{Linking: contracts.AnyLinking})
		if held == nil {
			held = v.harness.Compare(m.Harness)
		}
	})
	wg.Wait()
	for _, err := range []error{own, held, wrapper, launcher, dir} {
		if err != nil {
			v.close()
			return nil, err
		}
	}
	return v, nil
}

// ownExecutable: the program that runs is the one at the recorded path, and
// that one has the recorded bytes.
func ownExecutable(ctx context.Context, want messages.FileIdentity) error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		return problem.Wrap(err, "host_identity_changed", "sophia-host can't look at itself")
	}
	if st.Dev != want.Device || st.Ino != want.Inode {
		return problem.New("host_identity_changed", "sophia-host runs from inode %d, and the plan names %d", st.Ino, want.Inode).
			WithHint("Sophia was upgraded in between. Start the agent again.")
	}
	return program(ctx, want, "host_identity_changed")
}

func program(ctx context.Context, want messages.FileIdentity, code string) error {
	have, err := harness.IdentifyOwn(ctx, want.Path)
	if err == nil {
		err = harness.Compare(have, want)
	}
	if err == nil {
		return nil
	}
	return problem.Wrap(err, code, "%s is not the program that the plan names", want.Path).
		WithHint("Sophia was upgraded in between, or something replaced it. Start the agent again.")
}

func workspace(want messages.DirIdentity) (*os.File, error) {
	changed := func(cause error, why string) (*os.File, error) {
		return nil, problem.Wrap(cause, "workspace_changed", "The workspace %s is not the folder that was approved: %s", want.Path, why).
			WithHint("Register it again: sophia workspace add %s", strconv.Quote(want.Path))
	}
	fd, err := unix.Open(want.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return changed(err, "it is no folder")
	case err != nil:
		return changed(err, "it can't be opened")
	}
	f := os.NewFile(uintptr(fd), want.Path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != want.Device || st.Ino != want.Inode {
		f.Close()
		return changed(err, "device or inode differ")
	}
	return f, nil
}
