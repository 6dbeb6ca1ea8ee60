package probe

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/doctor"
	"sophia/hostd/harness"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/hostd/unit"
	"sophia/messages/problem"
)

// split is an error as the two columns of a check.
func split(err error) (message, mend string) {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		message = p.Message
		if p.Cause != nil && problem.CodeOf(p.Cause) == "" {
			message += ": " + p.Cause.Error()
		}
		return message, p.Hint
	}
	return err.Error(), ""
}

// Folders looks at Sophia's folders and makes none.
func Folders(d paths.Dirs) []doctor.Folder {
	var out []doctor.Folder
	for _, f := range []doctor.Folder{{Name: "data", Path: d.Data}, {Name: "config", Path: d.Config}, {Name: "state", Path: d.State}, {Name: "runtime", Path: d.Runtime}} {
		if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
			f.Missing = true
		} else if err := paths.MakePrivate(f.Path); err != nil { // it exists: this only looks
			f.Problem, f.Mend = split(err)
		}
		out = append(out, f)
	}
	return out
}

// OwnerKey reads the owner's key file and forgets it again.
func OwnerKey(path string) doctor.Key {
	k := doctor.Key{Path: path}
	key, err := ownerkey.Load(path)
	switch {
	case err == nil:
		key.Close()
	case problem.CodeOf(err) == "owner_key_missing":
		k.Missing = true
	default:
		k.Problem, k.Mend = split(err)
	}
	return k
}

// Programs hashes Sophia's programs in folder.
func Programs(ctx context.Context, folder string) []doctor.Program {
	var out []doctor.Program
	for _, name := range doctor.ProgramNames {
		p := doctor.Program{Name: name}
		id, err := harness.IdentifyOwn(ctx, filepath.Join(folder, name))
		if err != nil {
			p.Problem, _ = split(err)
		}
		p.SHA256 = id.SHA256
		out = append(out, p)
	}
	return out
}

// lingerFolder has a file for each user that lingers (systemd-logind).
const lingerFolder = "/var/lib/systemd/linger"

// Systemd asks the user's manager.
func Systemd(ctx context.Context, m *unit.Manager) doctor.Systemd {
	found, err := m.Describe(ctx)
	if err != nil {
		return doctor.Systemd{Problem: problem.Of(err).Message}
	}
	s := doctor.Systemd{Version: found.Version, Bus: found.Bus}
	if u, err := user.Current(); err == nil {
		s.User = u.Username
		if _, err := os.Stat(filepath.Join(lingerFolder, u.Username)); err == nil || errors.Is(err, fs.ErrNotExist) {
			on := err == nil
			s.Linger = &on
		}
	}
	return s
}

// unitRoot is where systemd's executor builds a unit's file tree. Only root's
// makes the folder itself (setup_namespace in systemd 252).
const unitRoot = "/run/systemd/unit-root"

// UnitRoot says why the user's manager can't build file trees, "" when it can.
func UnitRoot() (problem string) {
	if os.Geteuid() != 0 && !isFolder(unitRoot) {
		return unitRoot + " is missing"
	}
	return ""
}

// ControlGroups looks for the version 2 tree and tries to read it.
func ControlGroups() doctor.Groups {
	mount, err := unit.UnifiedMount()
	if err != nil {
		return doctor.Groups{Problem: err.Error()}
	}
	g := doctor.Groups{Mount: mount}
	// The root of the tree has neither file: a group below it does.
	group, err := someGroup(mount)
	if err != nil {
		g.Problem = err.Error()
		return g
	}
	if group == "" {
		g.Empty = true
		return g
	}
	if _, err := os.ReadFile(filepath.Join(group, "cgroup.events")); err != nil {
		g.Problem = err.Error()
		return g
	}
	g.Events = true
	_, err = os.Stat(filepath.Join(group, "cgroup.kill"))
	g.Kill = err == nil
	return g
}

// someGroup is a control group below the root: the one of this process, else
// any, "" when there is none.
func someGroup(mount string) (string, error) {
	if own, err := unit.OwnGroup(); err == nil && own != "/" {
		if dir := filepath.Join(mount, own); isFolder(dir) {
			return dir, nil
		}
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.IsDir() {
			return filepath.Join(mount, e.Name()), nil
		}
	}
	return "", nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Disks asks the file systems of Sophia's folders, or of what is above them.
func Disks(d paths.Dirs) []doctor.Disk {
	var out []doctor.Disk
	for _, disk := range []doctor.Disk{{Name: "data", Path: d.Data}, {Name: "runtime", Path: d.Runtime}} {
		at := disk.Path
		for at != "/" && !isFolder(at) {
			at = filepath.Dir(at)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err != nil {
			disk.Problem = "can't look at " + at + ": " + err.Error()
		} else {
			disk.Free, disk.ReadOnly = st.Bavail*uint64(st.Bsize), st.Flags&unix.ST_RDONLY != 0
		}
		out = append(out, disk)
	}
	return out
}

// dialTime bounds the try to reach the daemon's loopback address.
const dialTime = 2 * time.Second

// Answers tries whether somebody listens at an address.
func Answers(ctx context.Context, at string) doctor.Address {
	a := doctor.Address{Listen: at, Running: true}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		a.Problem = err.Error()
		return a
	}
	conn.Close()
	a.Answers = true
	return a
}

// Free tries whether an address can be listened on.
func Free(at string) doctor.Address {
	a := doctor.Address{Listen: at}
	l, err := net.Listen("tcp", at)
	if err != nil {
		a.Problem = err.Error()
		return a
	}
	l.Close()
	return a
}
