package terminal_test

import (
	"bytes"
	"io"
	"reflect"
	"sync"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"sophia/hostd/terminal"
	"sophia/messages/secret"
)

// The client on a real terminal: raw while attached, its size followed, and
// everything as it was afterwards.
func TestViewer_GivesTheTerminalBack(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	fd := slave.Fd() // makes it block, each time
	size := func(rows, cols uint16) {
		if err := pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
			t.Fatal(err)
		}
	}
	size(30, 100)
	modes := func() *unix.Termios {
		m, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := modes()
	var mu sync.Mutex
	var shown bytes.Buffer
	var workers sync.WaitGroup
	workers.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			mu.Lock()
			shown.Write(buf[:n])
			mu.Unlock()
			s.tell()
			if err != nil {
				return
			}
		}
	})
	s.Backlog.Write([]byte("\x1b[?1049h\x1b[?1000h\x1b[?2004h\x1b[>1uhello"))
	sec, _ := secret.New([]byte(token))
	defer sec.Zero()
	ended := make(chan error, 1)
	workers.Go(func() {
		ending, err := terminal.Viewer{Socket: s.socket, In: slave, Out: slave}.Attach(t.Context(), sec)
		if err == nil && !ending.Detached {
			err = io.ErrUnexpectedEOF
		}
		ended <- err
	})
	sees := func(want string) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return bytes.Contains(shown.Bytes(), []byte(want)) }
	}
	s.await(t, "the first screen", sees("hello"))
	s.await(t, "the viewer's size", func() bool { return len(s.sizes) >= 2 && s.sizes[len(s.sizes)-1] == terminal.Size{Rows: 30, Cols: 100} })
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the shell's own reads would fail meanwhile: flags %#x, %v", flags, err)
	}
	if during := modes(); during.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("the terminal is not raw: keys don't reach the agent as they are")
	}
	size(40, 120)
	unix.Kill(unix.Getpid(), unix.SIGWINCH)
	s.await(t, "the new size", func() bool { return s.sizes[len(s.sizes)-1] == terminal.Size{Rows: 40, Cols: 120} })
	master.Write([]byte("\x03typed")) // Ctrl-C is the agent's
	s.await(t, "keystrokes", func() bool { return s.typed.String() == "\x03typed" })
	master.Write([]byte("\x1c"))
	master.Write([]byte("d"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.await(t, "the modes taken back", sees("\x1b[23;0t"))
	if after := modes(); !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal's modes are %+v, were %+v", after, before)
	}
	for _, undo := range []string{"\x1b[?1049l", "\x1b[?1000l", "\x1b[?2004l", "\x1b[<1u"} {
		if !sees(undo)() {
			t.Errorf("%q was not taken back", undo)
		}
	}
	slave.Close()
	master.Close()
	workers.Wait()
}
