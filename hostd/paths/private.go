package paths

import (
	"os"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// MakePrivate creates dir with mode 0700 (parents too) or checks that it is a
// folder of this user that nobody else can enter.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return problem.Wrap(err, "folder_not_made", "can't create %s", dir)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return problem.Wrap(err, "folder_not_read", "can't look at %s", dir)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return problem.New("folder_not_private", "%s is not a folder", dir).WithHint("Move it away and start again.")
	case int(st.Uid) != os.Geteuid():
		return problem.New("folder_not_private", "%s belongs to uid %d", dir, st.Uid).WithHint("Give it to your user, or move it away.")
	case st.Mode&0o077 != 0:
		return problem.New("folder_not_private", "%s has mode %#o", dir, st.Mode&0o777).WithHint("Run: chmod 700 %s", dir)
	}
	return nil
}
