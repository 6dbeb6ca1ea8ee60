package peer

import (
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
)

// ControlGroup is the process's control group as systemd names it: that of the
// unified hierarchy, or, where systemd does not use it, that of its own.
func (p *Peer) ControlGroup() (string, error) {
	text, err := p.read("cgroup")
	if err != nil {
		return "", gone(err)
	}
	group, _ := systemdGroup(text)
	if group == "" {
		return "", problem.New("peer_outside_unit", "process %d is in no control group that systemd manages", p.PID)
	}
	return group, nil
}

// systemdGroup reads proc_pid_cgroup(5): lines "id:controllers:path". Units live
// in the unified hierarchy, unless systemd does not use it: then everybody is in
// its root, and the "name=systemd" hierarchy has them. unified is the path in
// the unified hierarchy, "" where there is none.
func systemdGroup(text string) (group, unified string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "name=systemd":
			group = parts[2]
		case parts[0] == "0" && parts[1] == "":
			unified = parts[2]
		}
	}
	if group == "" || unified != "" && unified != "/" {
		group = unified
	}
	return group, unified
}

// inGroup requires the process to be in group or below it.
func (p *Peer) inGroup(group string) error {
	text, err := p.read("cgroup")
	if err != nil {
		return gone(err)
	}
	have, unified := systemdGroup(text)
	want := path.Clean("/" + group)
	if have != want && !strings.HasPrefix(have, want+"/") {
		return problem.New("peer_outside_unit", "process %d is in control group %s, not in %s", p.PID, have, want).
			WithHint("Only processes of the launch's own unit get its credential.")
	}
	if id := p.groupID(); id != 0 && unified == have && !groupHasID(unified, id) {
		return problem.New("peer_outside_unit", "process %d is in another control group than the one named %s", p.PID, have)
	}
	return nil
}

// groupHasID compares the kernel's own id of a control group with the folder of
// that name, so that a path that only looks right from another control-group
// namespace does not pass. A group that is not mounted here can't be compared.
func groupHasID(group string, id uint64) bool {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if unix.Statfs(root, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		var st unix.Stat_t
		return unix.Stat(path.Join(root, group), &st) == nil && st.Ino == id
	}
	return true
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h, version 0 (64 bytes).
type pidfdInfo struct {
	mask     uint64
	cgroupID uint64
	rest     [48]byte
}

const (
	pidfdGetInfo    = 0xC000FF0B | 64<<16 // _IOWR(0xFF, 11, struct pidfd_info)
	pidfdInfoCgroup = 1 << 2
)

// groupID is the id of the process's unified control group, or 0 where the
// kernel does not tell (before 6.13, or without a pidfd).
func (p *Peer) groupID() uint64 {
	if p.pidfd < 0 {
		return 0
	}
	info := pidfdInfo{mask: pidfdInfoCgroup}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoCgroup == 0 {
		return 0
	}
	return info.cgroupID
}
