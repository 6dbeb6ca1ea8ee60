package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/messages/problem"
)

// Want is what a peer must be.
type Want struct {
	UID          uint32
	SHA256       string // of its executable, hex; must not be empty
	ControlGroup string // as systemd names it (/user.slice/…/x.service); "" is any
	// Hidden accepts a process that hides its executable because it has made
	// itself undumpable. For sockets where the process is known by its pid from
	// an earlier check; an executable that can be read must still match.
	Hidden bool
}

// Peer is the process that connected. Close it when done.
type Peer struct {
	PID int
	UID uint32
	GID uint32

	pidfd int      // -1 where the kernel has no SO_PEERPIDFD
	proc  *os.File // /proc/<pid>, bound to the process: reads fail once it is dead
	exe   *os.File // held from the first Executable
	id    messages.FileIdentity
}

// Of asks the kernel who connected. It fails with "peer_gone" when that process
// has ended.
//
// Without SO_PEERPIDFD the pid may already be another process's. That process
// then has to be the wanted program and has to answer the challenge itself, so
// it gets nothing that it could not have by connecting.
func Of(c *net.UnixConn) (*Peer, error) { return of(c, peerPidfd) }

func of(c *net.UnixConn, pidfdOf func(fd int) int) (*Peer, error) {
	cred, err := Credentials(c)
	if err != nil {
		return nil, err
	}
	pidfd := -1
	if err := control(c, func(fd int) { pidfd = pidfdOf(fd) }); err != nil {
		return nil, gone(err)
	}
	p := &Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid, pidfd: pidfd}
	p.proc, err = os.OpenFile("/proc/"+strconv.Itoa(p.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		p.Close()
		return nil, gone(err)
	}
	// Alive after the folder was opened: so the folder is that process's and
	// not a successor's.
	if err := p.alive(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Credentials is who connected, as it was then: SO_PEERCRED. It fails with
// "peer_gone" on a closed socket.
func Credentials(c *net.UnixConn) (cred *unix.Ucred, err error) {
	closed := control(c, func(fd int) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(closed, err); err != nil {
		return nil, gone(err)
	}
	return cred, nil
}

func control(c *net.UnixConn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

func peerPidfd(fd int) int {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return -1
	}
	return pidfd
}

func gone(err error) error {
	return problem.Wrap(err, "peer_gone", "the process that connected has ended")
}

// alive fails with "peer_gone" when the process has ended.
func (p *Peer) alive() error {
	if p.pidfd >= 0 {
		if err := unix.PidfdSendSignal(p.pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return gone(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(p.proc.Fd()), "stat", &st, 0); err != nil {
		return gone(err)
	}
	return nil
}

// maxExecutable bounds what is hashed for a peer, in bytes.
const maxExecutable = 512 << 20

// Executable hashes the bytes that the process runs, once, through a descriptor
// that stays open until Close. Path is only what the kernel shows; nothing
// depends on it.
func (p *Peer) Executable() (messages.FileIdentity, error) {
	if p.exe != nil {
		return p.id, nil
	}
	f, err := p.open("exe")
	if err != nil {
		return messages.FileIdentity{}, problem.Wrap(err, "peer_unreadable", "the executable of process %d can't be read", p.PID).
			WithHint("The process may have made itself undumpable before it was checked.")
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxExecutable {
		f.Close()
		return messages.FileIdentity{}, problem.New("peer_unreadable", "the executable of process %d is not a file of at most %d bytes", p.PID, maxExecutable)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxExecutable)); err != nil {
		f.Close()
		return messages.FileIdentity{}, problem.Wrap(err, "peer_unreadable", "the executable of process %d can't be read", p.PID)
	}
	path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	p.exe = f
	p.id = messages.FileIdentity{
		Path: path, SHA256: hex.EncodeToString(h.Sum(nil)),
		Device: st.Dev, Inode: st.Ino, Size: st.Size, Mode: st.Mode & 0o7777,
	}
	return p.id, nil
}

// open opens a file of the process's own /proc folder.
func (p *Peer) open(name string) (*os.File, error) {
	fd, err := unix.Openat(int(p.proc.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *Peer) read(name string) (string, error) {
	f, err := p.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return string(b), err
}

// Check compares the peer with what is wanted. Codes: peer_wrong_user,
// peer_unreadable, peer_wrong_executable, peer_outside_unit, peer_gone.
func (p *Peer) Check(want Want) error {
	if p.UID != want.UID {
		return problem.New("peer_wrong_user", "process %d belongs to uid %d, not %d", p.PID, p.UID, want.UID)
	}
	id, err := p.Executable()
	hidden := want.Hidden && errors.Is(err, unix.EACCES)
	if err != nil && !hidden {
		return err
	}
	if hidden {
		return p.alive()
	}
	if want.SHA256 == "" || id.SHA256 != want.SHA256 {
		return problem.New("peer_wrong_executable", "process %d runs %s (SHA-256 %s), which is not the program that this socket serves", p.PID, id.Path, id.SHA256)
	}
	if want.ControlGroup != "" {
		if err := p.inGroup(want.ControlGroup); err != nil {
			return err
		}
	}
	return p.alive()
}

// Recheck compares again, after the peer has answered: the same process, still
// running the held bytes, with no tracer that could act in its place.
//
// A peer that has made itself undumpable hides /proc/<pid>/exe from a daemon
// without CAP_SYS_PTRACE (measured). That is accepted here and not in Check:
// the genuine program ran by then, does so after it was challenged and never
// executes another.
func (p *Peer) Recheck(want Want) error {
	if err := p.alive(); err != nil {
		return err
	}
	if p.exe == nil && !want.Hidden {
		return problem.New("peer_unreadable", "process %d was never checked", p.PID)
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(int(p.proc.Fd()), "exe", &st, 0); {
	case err == nil:
		if p.exe == nil || st.Dev != p.id.Device || st.Ino != p.id.Inode {
			return problem.New("peer_wrong_executable", "process %d now runs another program", p.PID)
		}
	case !errors.Is(err, unix.EACCES):
		return gone(err)
	}
	status, err := p.read("status")
	if err != nil {
		return gone(err)
	}
	if err := checkStatus(status, p.PID, want.UID); err != nil {
		return err
	}
	if want.ControlGroup != "" {
		if err := p.inGroup(want.ControlGroup); err != nil {
			return err
		}
	}
	return p.alive()
}

// checkStatus reads proc_pid_status(5): all four uids are the wanted one and
// nobody traces the process.
func checkStatus(status string, pid int, uid uint32) error {
	traced, owned := true, false
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(value)
		switch name {
		case "TracerPid":
			traced = len(fields) != 1 || fields[0] != "0"
		case "Uid":
			owned = len(fields) == 4
			for _, f := range fields {
				owned = owned && f == strconv.FormatUint(uint64(uid), 10)
			}
		}
	}
	if !owned {
		return problem.New("peer_wrong_user", "process %d has changed its user", pid)
	}
	if traced {
		return problem.New("peer_traced", "process %d is being traced", pid).
			WithHint("A debugger on the wrapper could read its credential. Detach it and start the agent again.")
	}
	return nil
}

// Close gives the descriptors back.
func (p *Peer) Close() {
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
	for _, f := range []*os.File{p.proc, p.exe} {
		if f != nil {
			_ = f.Close()
		}
	}
}
