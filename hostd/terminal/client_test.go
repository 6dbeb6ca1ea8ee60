package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"sophia/hostd/terminal"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// glass is a real terminal, and who looks at it.
type glass struct {
	t             *testing.T
	setup         *setup
	master, slave *os.File
	before        *unix.Termios
	mu            sync.Mutex
	saw           bytes.Buffer
	looking       sync.WaitGroup
}

// glass makes a terminal that nobody looks at yet.
func (s *setup) glass(t *testing.T) *glass {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	master.Close()
	if err == nil {
		err = unix.SetNonblock(fd, true) // so that Close ends a Read
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &glass{t: t, setup: s, master: os.NewFile(uintptr(fd), "ptmx"), slave: slave}
	slave.Fd() // makes it block, as a shell's does
	g.size(30, 100)
	g.before = g.modes()
	t.Cleanup(g.close)
	return g
}

func (g *glass) close() {
	g.slave.Close()
	g.master.Close()
	g.looking.Wait()
}

func (g *glass) size(rows, cols uint16) {
	g.t.Helper()
	raw, err := g.master.SyscallConn()
	if err != nil {
		g.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *glass) modes() *unix.Termios {
	g.t.Helper()
	m, err := unix.IoctlGetTermios(int(g.slave.Fd()), unix.TCGETS)
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

// look reads what is shown, from now on.
func (g *glass) look() {
	g.looking.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := g.master.Read(buf)
			g.mu.Lock()
			g.saw.Write(buf[:n])
			g.mu.Unlock()
			g.setup.tell()
			if err != nil {
				return
			}
		}
	})
}

func (g *glass) shown() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.Clone(g.saw.Bytes())
}

func (g *glass) sees(want string) func() bool {
	return func() bool { return bytes.Contains(g.shown(), []byte(want)) }
}

// takes reads what was typed as the terminal's shell does, n bytes or what there
// is in time.
func (g *glass) takes(n int) (keys string) {
	g.t.Helper()
	fd := int(g.slave.Fd())
	for buf := make([]byte, n); len(keys) < n; {
		if ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000); err != nil && err != unix.EINTR || ready == 0 && err == nil {
			return keys
		}
		got, err := unix.Read(fd, buf[:n-len(keys)])
		if err != nil {
			g.t.Fatal(err)
		}
		keys += string(buf[:got])
	}
	return keys
}

func (g *glass) types(keys string) {
	g.t.Helper()
	if _, err := g.master.WriteString(keys); err != nil {
		g.t.Fatal(err)
	}
}

type attached struct {
	ending terminal.Ending
	err    error
}

// attach starts a viewer on the glass.
func (g *glass) attach(ctx context.Context, host func(context.Context) (int, error)) <-chan attached {
	g.t.Helper()
	sec, err := secret.New([]byte(token))
	if err != nil {
		g.t.Fatal(err)
	}
	ended := make(chan attached, 1)
	g.looking.Go(func() {
		defer sec.Zero()
		ending, err := terminal.Viewer{Socket: g.setup.socket, In: g.slave, Out: g.slave, Host: host}.Attach(ctx, sec)
		ended <- attached{ending, err}
	})
	return ended
}

// asItWas checks that the terminal has its modes back.
func (g *glass) asItWas(undone ...string) {
	g.t.Helper()
	if after := g.modes(); !reflect.DeepEqual(g.before, after) {
		g.t.Errorf("the terminal's modes are %+v, were %+v", after, g.before)
	}
	// Taking back begins with CAN, which ends any sequence, and is done once.
	shown := g.shown()
	last := shown[bytes.LastIndexByte(shown, 0x18)+1:]
	for _, undo := range append(undone, "\x1b[23;0t") {
		if !bytes.Contains(last, []byte(undo)) {
			g.t.Errorf("%q was not taken back: %q", undo, last)
		}
	}
	if n := bytes.Count(shown, []byte("\x1b[23;0t")); n != 1 {
		g.t.Errorf("the modes were taken back %d times", n)
	}
}

// genuine is the relay's process: it is given the terminal.
func genuine(context.Context) (int, error) { return os.Getpid(), nil }

// ways are how a terminal is shown what the agent writes.
var ways = map[string]func(context.Context) (int, error){
	"handed over": genuine,
	"in frames":   nil,
}

func eachWay(t *testing.T, run func(t *testing.T, host func(context.Context) (int, error))) {
	for name, host := range ways {
		t.Run(name, func(t *testing.T) { run(t, host) })
	}
}

// The client on a real terminal: raw while attached, its size followed, and
// everything as it was afterwards.
func TestViewer_GivesTheTerminalBack(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		g := s.glass(t)
		g.look()
		s.Backlog.Write([]byte("\x1b[?1049h\x1b[?1000h\x1b[?2004h\x1b[>1uhello"))
		ended := g.attach(t.Context(), host)
		s.await(t, "the first screen", g.sees("hello"))
		s.await(t, "the viewer's size", func() bool {
			return len(s.sizes) >= 2 && s.sizes[len(s.sizes)-1] == terminal.Size{Rows: 30, Cols: 100}
		})
		if flags, err := unix.FcntlInt(g.slave.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("the shell's own reads would fail meanwhile: flags %#x, %v", flags, err)
		}
		if during := g.modes(); during.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
			t.Error("the terminal is not raw: keys don't reach the agent as they are")
		}
		g.size(40, 120)
		unix.Kill(unix.Getpid(), unix.SIGWINCH)
		s.await(t, "the new size", func() bool { return s.sizes[len(s.sizes)-1] == terminal.Size{Rows: 40, Cols: 120} })
		g.types("\x03typed") // Ctrl-C is the agent's
		s.await(t, "keystrokes", func() bool { return s.typed.String() == "\x03typed" })
		g.types("\x1c")
		g.types("d")
		if got := <-ended; got.err != nil || !got.ending.Detached {
			t.Fatalf("%+v", got)
		}
		s.await(t, "the modes taken back", g.sees("\x1b[23;0t"))
		g.asItWas("\x1b[?1049l", "\x1b[?1000l", "\x1b[?2004l", "\x1b[<1u")
		if s.Gate.Present() {
			s.await(t, "the viewer's leaving", func() bool { s.tell(); return !s.Gate.Present() })
		}
	})
}

// The end of the harness is told, after the last of its output.
func TestViewer_SeesTheEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		g := s.glass(t)
		g.look()
		ended := g.attach(t.Context(), host)
		s.Backlog.Write([]byte("\x1b[?1049hlast words"))
		s.Backlog.Close(terminal.Exit{Code: 7, Signal: ""})
		if got := <-ended; got.err != nil || got.ending.Detached || got.ending.Exit.Code != 7 {
			t.Fatalf("%+v", got)
		}
		s.await(t, "the modes taken back", g.sees("\x1b[23;0t"))
		g.asItWas("\x1b[?1049l")
		if !g.sees("last words")() {
			t.Error("the last output was not shown")
		}
	})
}

// Whoever ends the viewer's program in order gets the terminal back as it was.
func TestViewer_ToldToEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		g := s.glass(t)
		g.look()
		s.Backlog.Write([]byte("\x1b[?1049hhello"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := g.attach(ctx, host)
		s.await(t, "the first screen", g.sees("hello"))
		cancel()
		if got := <-ended; got.err != nil || !got.ending.Detached {
			t.Fatalf("%+v", got)
		}
		s.await(t, "the modes taken back", g.sees("\x1b[23;0t"))
		g.asItWas("\x1b[?1049l")
	})
}

// A terminal whose other end goes away, as when a window is closed: the agent
// is alone again, and its questions are answered.
func TestViewer_TerminalClosed(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		answers := make(chan string, 8)
		s.Backlog.Answer = func(a string) { answers <- a }
		g := s.glass(t)
		g.look()
		s.Backlog.Write([]byte("hello"))
		ended := g.attach(t.Context(), host)
		s.await(t, "the first screen", g.sees("hello"))
		g.master.Close()
		<-ended
		s.gone(t)
		s.Backlog.Write([]byte("\x1b[5n"))
		if a := <-answers; a != "\x1b[0n" {
			t.Errorf("the relay answers %q", a)
		}
	})
}

// gone waits until nobody is attached.
func (s *setup) gone(t *testing.T) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Gate.Present() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("somebody is still attached")
		}
	}
}

// A terminal that takes nothing (a slow line, an emulator that hangs, output
// stopped with Ctrl-S) costs the agent nothing, and then shows the present.
func TestViewer_TerminalThatTakesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		g := s.glass(t)
		ended := g.attach(t.Context(), host)
		s.await(t, "the viewer's size", func() bool { return len(s.sizes) >= 2 })
		stop := func(on int) {
			if err := unix.IoctlSetInt(int(g.slave.Fd()), unix.TCXONC, on); err != nil {
				t.Fatal(err)
			}
		}
		stop(0) // TCOOFF
		line := []byte("\x1b[32m" + strings.Repeat("flood ", 12) + "\x1b[m\r\n")
		for range 20 << 20 / len(line) { // each write returns, or this test never ends
			s.Backlog.Write(line)
		}
		const end = "\x1b[?1049h\x1b[2J\x1b[Hlast words"
		s.Backlog.Write([]byte(end))
		g.types("typed") // keys go on meanwhile
		s.await(t, "keystrokes", func() bool { return s.typed.String() == "typed" })
		stop(1) // TCOON
		g.look()
		s.await(t, "the present", g.sees("last words"))
		all := g.shown()
		if len(all) > 8<<20 {
			t.Errorf("a terminal that fell behind was fed %d bytes", len(all))
		}
		if got, want := screen(all), screen([]byte(end)); got != want {
			t.Errorf("it sees\n%s\nwant\n%s", got, want)
		}
		g.types("\x1cd")
		if got := <-ended; got.err != nil || !got.ending.Detached {
			t.Fatalf("%+v", got)
		}
	})
}

// A terminal that takes nothing can be detached from all the same.
func TestViewer_LeavesATerminalThatTakesNothing(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	g := s.glass(t)
	ended := g.attach(t.Context(), genuine)
	s.await(t, "the viewer's size", func() bool { return len(s.sizes) >= 2 })
	s.Backlog.Write(bytes.Repeat([]byte("flood\r\n"), 50_000)) // more than the terminal holds
	g.types("\x1cd")
	s.gone(t)
	g.look() // now there is room for what takes the modes back
	<-ended
	if after := g.modes(); !reflect.DeepEqual(g.before, after) {
		t.Errorf("the terminal's modes are %+v, were %+v", after, g.before)
	}
}

// What has put its own socket in the terminal's place hears nothing.
func TestViewer_TellsAnImpostorNothing(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	heard := make(chan []byte, 1)
	l, err := net.Listen("unix", s.socket+"x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			heard <- nil
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		heard <- b
	}()
	s.socket += "x"
	g := s.glass(t)
	got := <-g.attach(t.Context(), func(context.Context) (int, error) { return os.Getppid(), nil })
	if problem.CodeOf(got.err) != "terminal_impostor" || problem.Of(got.err).Hint == "" {
		t.Errorf("%+v", got)
	}
	if b := <-heard; len(b) > 0 {
		t.Errorf("the impostor heard %q", b)
	}
	if after := g.modes(); !reflect.DeepEqual(g.before, after) {
		t.Error("the terminal's modes were changed")
	}
}

// Where nobody can say who the host is, all goes through the viewer.
func TestViewer_KeepsItsTerminalFromAnUnknownHost(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	g := s.glass(t)
	g.look()
	asked := false
	ended := g.attach(t.Context(), func(context.Context) (int, error) { asked = true; return 0, errors.New("no bus") })
	s.Backlog.Write([]byte("hello"))
	s.await(t, "the first screen", g.sees("hello"))
	g.types("\x1cd")
	if got := <-ended; got.err != nil || !asked {
		t.Errorf("%+v, asked %v", got, asked)
	}
}

// Only a terminal of its own to read and write is taken, and another descriptor
// costs no token. Nothing of either stays open, and nothing can be inherited.
func TestTerminal_TakesNothingButATerminal(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	g := s.glass(t)
	open := func(flags int) int {
		fd, err := unix.Open(g.slave.Name(), flags|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	fit := open(unix.O_RDWR | unix.O_NONBLOCK)
	unfit := map[string][]int{
		"no terminal":     {null},
		"would block":     {open(unix.O_RDWR)},
		"only for output": {open(unix.O_WRONLY | unix.O_NONBLOCK)},
		"two":             {fit, fit},
	}
	before := descriptors(g.slave.Name(), "/dev/null")
	for name, fds := range unfit {
		c, typ, r := helloWith(t, s.socket, unix.UnixRights(fds...))
		if typ != terminal.FrameRefused || r.Code != "terminal_protocol" {
			t.Errorf("%s: %q %+v", name, typ, r)
		}
		c.Close()
	}
	if s.Gate.Used() {
		t.Error("the token was used")
	}
	c, typ, r := helloWith(t, s.socket, unix.UnixRights(fit))
	if typ != terminal.FrameWelcome {
		t.Fatalf("a fit one: %q %+v", typ, r)
	}
	for _, fd := range descriptors(g.slave.Name()) {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 && fd != int(g.slave.Fd()) {
			t.Errorf("descriptor %d, the viewer's terminal, would be inherited", fd)
		}
	}
	c.Close()
	s.gone(t)
	s.await(t, "all closed", func() bool { s.tell(); return slices.Equal(descriptors(g.slave.Name(), "/dev/null"), before) })
}

// descriptors are those of this process that are open on one of the paths.
func descriptors(paths ...string) (fds []int) {
	for fd := range 512 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && slices.Contains(paths, to) {
			fds = append(fds, fd)
		}
	}
	return fds
}
