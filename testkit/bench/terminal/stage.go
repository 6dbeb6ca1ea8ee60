package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"context"

	"github.com/creack/pty"

	"sophia/hostd/harness"
	"sophia/hostd/manifest"
	"sophia/hostd/terminal"
	"sophia/messages"
)

const (
	startTime = 30 * time.Second
	token     = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
)

var size = pty.Winsize{Rows: 40, Cols: 120}

// stage is one program on a terminal and who looks at it, if anybody.
type stage struct {
	control *control
	glass   *os.File // the terminal that the person looks at; nil when nobody does
	stops   []func()
	stalled atomic.Bool
	chunks  chan []byte // what the glass shows, while it is not stalled; nil: thrown away
}

func (s *stage) close() {
	if s.control != nil {
		s.control.close() // the agent ends
	}
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

func (s *stage) later(f func()) { s.stops = append(s.stops, f) }

// kind starts a program (role and arguments) on a stage of its kind. With
// viewer, somebody looks.
type kind func(r *rig, s *stage, dir string, viewer bool, role string, args ...string) error

// start puts the program on a stage and waits until it runs and is seen.
func (r *rig) start(k kind, viewer bool, show bool, role string, args ...string) (s *stage, err error) {
	dir, err := r.folder()
	if err != nil {
		return nil, err
	}
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.control, err = listen(filepath.Join(dir, "c")); err != nil {
		return nil, err
	}
	if show {
		s.chunks = make(chan []byte, 64)
	}
	if err := k(r, s, dir, viewer, role, append([]string{s.control.path()}, args...)...); err != nil {
		return nil, err
	}
	return s, s.control.arrive()
}

// look reads the glass as a terminal does, until it is closed.
func (s *stage) look() {
	buf := make([]byte, 64<<10)
	for !s.stalled.Load() {
		n, err := s.glass.Read(buf)
		if n > 0 && s.chunks != nil {
			s.chunks <- append([]byte(nil), buf[:n]...)
		}
		if err != nil {
			return
		}
	}
}

// onGlass runs a program on a terminal that the bench reads.
func (s *stage) onGlass(cmd *exec.Cmd) error {
	glass, err := pty.StartWithSize(cmd, &size)
	if err != nil {
		return err
	}
	s.glass = glass
	done := make(chan struct{})
	go func() { defer close(done); s.look() }()
	s.later(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
		glass.Close()
		if s.chunks != nil {
			for range len(s.chunks) {
				<-s.chunks
			}
		}
		<-done
	})
	return nil
}

func (r *rig) role(role string, args ...string) []string {
	return append([]string{r.self, roleFlag, role}, args...)
}

// direct: the person's terminal is the agent's.
func direct(r *rig, s *stage, _ string, _ bool, role string, args ...string) error {
	argv := r.role(role, args...)
	return s.onGlass(exec.Command(argv[0], argv[1:]...))
}

// dtach keeps a session; its client is on the glass.
func dtach(r *rig, s *stage, dir string, _ bool, role string, args ...string) error {
	return s.onGlass(exec.Command("dtach", append([]string{"-c", filepath.Join(dir, "d"), "-E", "-z", "-r", "none"}, r.role(role, args...)...)...))
}

// tmux likewise, with a server and an emulator of its own.
func tmux(r *rig, s *stage, dir string, _ bool, role string, args ...string) error {
	conf := filepath.Join(dir, "tmux.conf")
	if err := os.WriteFile(conf, []byte("set -g status off\nset -s escape-time 0\n"), 0o600); err != nil {
		return err
	}
	socket := filepath.Join(dir, "t")
	s.later(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() }) // gone with its last session, usually
	cmd := exec.Command("tmux", append([]string{"-S", socket, "-f", conf, "new-session"}, r.role(role, args...)...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "TMUX=")
	return s.onGlass(cmd)
}

// ours is sophia-host with a manifest, and the viewer of sophia agent attach,
// whose terminal the host reads and writes itself.
func ours(r *rig, s *stage, dir string, viewer bool, role string, args ...string) error {
	return r.host(s, dir, viewer, true, role, args...)
}

// frames is ours for a terminal that can't be handed to the host.
func frames(r *rig, s *stage, dir string, viewer bool, role string, args ...string) error {
	return r.host(s, dir, viewer, false, role, args...)
}

func (r *rig) host(s *stage, dir string, viewer, handed bool, role string, args ...string) error {
	m, err := r.manifest(dir, r.role(role, args...))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, manifest.FileName)
	digest, err := manifest.Write(path, m)
	if err != nil {
		return err
	}
	host := exec.Command(m.Host.Path, path, digest)
	var says strings.Builder
	host.Stderr = &says
	host.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := host.Start(); err != nil {
		return err
	}
	s.later(func() { _ = host.Wait() }) // its exit code is the agent's
	s.later(func() { _ = host.Process.Signal(syscall.SIGTERM) })
	if !viewer {
		return nil
	}
	if err := await(func() bool { _, err := os.Stat(m.Terminal.Socket); return err == nil }); err != nil {
		return fmt.Errorf("sophia-host made no terminal: %w\n%s", err, says.String())
	}
	known := 0
	if handed {
		known = host.Process.Pid
	}
	argv := r.role("viewer", m.Terminal.Socket, token, strconv.Itoa(known))
	return s.onGlass(exec.Command(argv[0], argv[1:]...))
}

func (r *rig) manifest(dir string, argv []string) (m messages.Manifest, err error) {
	identify := func(path string) (id messages.FileIdentity) {
		if err == nil {
			id, err = harness.IdentifyOwn(context.Background(), path)
		}
		return id
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return m, err
	}
	sum := sha256.Sum256([]byte(token))
	m = messages.Manifest{
		Version: 1, Launch: "lp-0a1b2c", Lease: "ls-0a1b2c", PlanDigest: strings.Repeat("0", 64),
		Host:    identify(filepath.Join(r.programs, "sophia-host")),
		Harness: identify(r.self), Wrapper: identify(filepath.Join(r.programs, "sophia-wrapper")), Launcher: identify(filepath.Join(r.programs, "sophiad")),
		Workspace: messages.DirIdentity{Path: dir, Device: st.Dev, Inode: st.Ino},
		Argv:      argv, Environment: map[string]string{"TERM": "xterm-256color"},
		Overlay: dir, ReportPath: filepath.Join(dir, "report.json"), Expires: time.Now().Add(time.Minute).UTC().Round(0),
		Terminal: messages.TerminalSpec{Socket: filepath.Join(dir, "s"), TokenSHA256: hex.EncodeToString(sum[:]), Backlog: terminal.DefaultBacklog, Rows: size.Rows, Cols: size.Cols},
	}
	return m, err
}

// await polls for what another process does.
func await(is func() bool) error {
	limit := time.After(startTime)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			return errors.New("waited too long")
		}
	}
	return nil
}
