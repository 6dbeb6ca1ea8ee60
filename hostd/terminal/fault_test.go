package terminal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/hostd/terminal"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/fault"
)

// restarted waits for the second life of the relay's actor.
func (s *setup) restarted() {
	for e := range s.events {
		if x, ok := e.(supervise.Started); ok && x.Gen > 1 && path.Base(x.Path) == "terminal" {
			return
		}
	}
}

func (s *setup) has(size terminal.Size) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.sizes, size)
}

// Killed at its n-th message, wherever that is: nobody hangs, the token is used
// at most once in both lives, and a token that nobody used still works.
func TestTerminal_ActorKilledAtEachStep(t *testing.T) {
	steps := map[string]bool{}
	for n := uint64(3); n < 16; n++ {
		died := make(chan string, 1)
		s := serve(t, terminal.DefaultBacklog, func(d fault.Delivery) supervise.Fault {
			if d.Gen > 1 || d.N != n {
				return supervise.Fault{}
			}
			died <- fmt.Sprintf("%T", d.Msg)
			return supervise.Fault{Do: supervise.Panic}
		})
		s.Backlog.Write([]byte("kept\r\n"))
		welcomes := 0
		attach := func() string {
			c, typ, r := hello(t, s.socket, token, terminal.Size{Rows: 30, Cols: 100})
			defer c.Close()
			if typ != terminal.FrameWelcome {
				return r.Code
			}
			welcomes++
			terminal.WriteFrame(c, terminal.FrameResize, terminal.Size{Rows: 20, Cols: 90}.Encode())
			for !s.has(terminal.Size{Rows: 20, Cols: 90}) {
				select {
				case <-s.event:
				case step := <-died:
					died <- step
					return "welcome"
				}
			}
			// The next hello must not overtake this viewer's leaving.
			c.Close()
			gone := time.NewTicker(time.Millisecond)
			defer gone.Stop()
			for s.Gate.Present() {
				select {
				case <-gone.C:
				case step := <-died:
					died <- step
					return "welcome"
				}
			}
			return "welcome"
		}
		step := ""
		for step == "" {
			select {
			case step = <-died:
			default:
				if code := attach(); code == "hung" {
					t.Fatalf("killed at message %d, somebody waits for ever", n)
				}
			}
		}
		steps[step] = true
		s.restarted()
		used := s.Gate.Used()
		code := attach()
		if want := map[bool]string{false: "welcome", true: "token_consumed"}[used]; code != want {
			t.Errorf("killed at message %d (%s), token used %v: %q, want %q", n, step, used, code, want)
		}
		if welcomes > 1 {
			t.Errorf("killed at message %d (%s): %d viewers were let in", n, step, welcomes)
		}
		if text, err := terminal.Tail(t.Context(), s.socket); err != nil || string(text) != "kept\n" {
			t.Errorf("killed at message %d (%s): tail %q, %v", n, step, text, err)
		}
	}
	for _, want := range []string{"terminal.arrived", "terminal.greeted", "terminal.resized", "terminal.left"} {
		if !steps[want] {
			t.Errorf("never killed at %s: %v", want, steps)
		}
	}
}

func TestTerminal_ActorCrashKeepsTokenAndBacklog(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	s.Backlog.Write([]byte("kept\r\n"))
	s.mu.Lock()
	s.crash = true // at the attach's resize, after the token was consumed
	s.mu.Unlock()
	c, _, _ := hello(t, s.socket, token, terminal.Size{Rows: 24, Cols: 80})
	io.Copy(io.Discard, c) // it is disconnected
	c.Close()
	s.restarted()
	c, _, r := hello(t, s.socket, token, terminal.Size{})
	c.Close()
	if r.Code != "token_consumed" {
		t.Errorf("after the crash: %q", r.Code)
	}
	text, err := terminal.Tail(t.Context(), s.socket)
	if err != nil || string(text) != "kept\n" {
		t.Errorf("tail %q, %v", text, err)
	}
}

// The actor restarts under an attached viewer: the viewer is told, its terminal
// is as it was, and the agent's output is still drained and kept.
func TestTerminal_RestartUnderAnAttachedViewer(t *testing.T) {
	eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
		s := serve(t, terminal.DefaultBacklog)
		answers := make(chan string, 8)
		s.Backlog.Answer = func(a string) { answers <- a }
		s.Backlog.Write([]byte("\x1b[?1049h\x1b[?2004h\x1b[>1uhello"))
		g := s.glass(t)
		g.look()
		ended := g.attach(t.Context(), host)
		s.await(t, "the first screen", g.sees("hello"))
		s.await(t, "the size settled", func() bool { return len(s.sizes) >= 2 })
		s.mu.Lock()
		s.crash = true
		s.mu.Unlock()
		unix.Kill(unix.Getpid(), unix.SIGWINCH) // the viewer tells its size, and the actor dies of it
		if got := <-ended; problem.CodeOf(got.err) != "terminal_lost" || problem.Of(got.err).Hint == "" {
			t.Errorf("the viewer ends with %+v", got)
		}
		s.await(t, "the modes taken back", g.sees("\x1b[23;0t"))
		g.asItWas("\x1b[?1049l", "\x1b[?2004l", "\x1b[<1u")
		s.restarted()
		s.Backlog.Write([]byte("goes on\x1b[5n"))
		if a := <-answers; a != "\x1b[0n" {
			t.Errorf("with nobody attached any more the relay answers %q", a)
		}
		if text, err := terminal.Tail(t.Context(), s.socket); err != nil || !strings.Contains(string(text), "goes on") {
			t.Errorf("tail %q, %v", text, err)
		}
	})
}

// Frames that end half-way cost nobody anything but their own connection.
func TestTerminal_HalfWrittenFrames(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	p, _ := json.Marshal(terminal.Hello{Version: terminal.Protocol, Token: []byte(token), Size: terminal.Size{Rows: 24, Cols: 80}})
	var whole bytes.Buffer
	terminal.WriteFrame(&whole, terminal.FrameHello, p)
	dial := func() net.Conn {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for n := range whole.Len() { // every cut of a right hello, and many more than may wait at once
		c := dial()
		c.Write(whole.Bytes()[:n])
		c.Close()
	}
	for range 20 { // and some that say nothing more
		c := dial()
		defer c.Close()
		c.Write(whole.Bytes()[:7])
	}
	if s.Gate.Used() {
		t.Fatal("half a hello used the token")
	}
	c, typ, r := hello(t, s.socket, token, terminal.Size{Rows: 24, Cols: 80})
	if typ != terminal.FrameWelcome {
		t.Fatalf("refused: %q", r.Code)
	}
	input := append([]byte{byte(terminal.FrameInput)}, binary.BigEndian.AppendUint32(nil, 100)...)
	c.Write(append(input, "only so much"...))
	c.Close()
	for s.Gate.Present() {
		if c, _, r := hello(t, s.socket, token, terminal.Size{}); c != nil {
			c.Close()
			if r.Code != "viewer_present" && r.Code != "token_consumed" {
				t.Fatalf("after half a frame: %q", r.Code)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.typed.Len() > 0 {
		t.Errorf("half a frame was typed: %q", s.typed.String())
	}
}

// A frame that no viewer sends ends the viewer's connection, not the relay.
func TestTerminal_ViewerThatBreaksTheProtocolIsDropped(t *testing.T) {
	for name, frame := range map[string]string{
		"type": "z\x00\x00\x00\x00", "length": "i\xff\xff\xff\xff", "size": "r\x00\x00\x00\x01x", "second hello": "h\x00\x00\x00\x02{}", "output": "o\x00\x00\x00\x01x",
	} {
		s := serve(t, terminal.DefaultBacklog)
		c, typ, _ := hello(t, s.socket, token, terminal.Size{Rows: 24, Cols: 80})
		if typ != terminal.FrameWelcome {
			t.Fatal(typ)
		}
		c.Write([]byte(frame))
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		if _, err := terminal.Tail(t.Context(), s.socket); err != nil {
			t.Errorf("%s: afterwards %v", name, err)
		}
		if s.typed.Len() > 0 {
			t.Errorf("%s: typed %q", name, s.typed.String())
		}
	}
}

// viewerVariable makes this test program a viewer.
const viewerVariable = "TERMINAL_TEST_VIEWER"

func viewerProcess(socket string) {
	s, err := secret.New([]byte(token))
	if err == nil {
		_, err = terminal.Viewer{
			Socket: socket, In: os.Stdin, Out: os.Stdout,
			Host: func(context.Context) (int, error) { return os.Getppid(), nil },
		}.Attach(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kill -9 of the viewer, while it reads and while it is stalled.
func TestTerminal_ViewerKilled(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		s := serve(t, terminal.DefaultBacklog)
		answers := make(chan string, 8)
		s.Backlog.Answer = func(a string) { answers <- a }
		s.Backlog.Write([]byte("hello"))
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), viewerVariable+"="+s.socket)
		keys, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		keys.Write([]byte("typed"))
		s.await(t, "keystrokes", func() bool { return s.typed.String() == "typed" })
		if stalled {
			for range 3000 {
				s.Backlog.Write(bytes.Repeat([]byte("flood\r\n"), 500))
			}
		} else {
			workers := sync.WaitGroup{}
			workers.Go(func() { io.Copy(io.Discard, out) })
			defer workers.Wait()
		}
		cmd.Process.Kill()
		cmd.Wait()
		s.alone(t, answers)
	}
}

// alone checks that nobody is attached any more, nor can be.
func (s *setup) alone(t *testing.T, answers <-chan string) {
	t.Helper()
	s.gone(t)
	s.Backlog.Write([]byte("\x1b[5n"))
	if a := <-answers; a != "\x1b[0n" {
		t.Errorf("the relay answers %q", a)
	}
	c, _, r := hello(t, s.socket, token, terminal.Size{})
	c.Close()
	if r.Code != "token_consumed" {
		t.Errorf("a second viewer: %q", r.Code)
	}
}

// The same on a terminal that was handed over: the relay itself takes the modes
// back, makes the line what it was, and types nothing of what comes then, nor of
// what came while the viewer was stopped.
func TestTerminal_ViewerKilledOnItsTerminal(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	answers := make(chan string, 8)
	s.Backlog.Answer = func(a string) { answers <- a }
	s.Backlog.Write([]byte("\x1b[?1049h\x1b[?1000hhello"))
	g := s.glass(t)
	g.look()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), viewerVariable+"="+s.socket)
	cmd.Stdin, cmd.Stdout = g.slave, g.slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the first screen", g.sees("hello"))
	g.types("typed")
	s.await(t, "keystrokes", func() bool { return s.typed.String() == "typed" })
	cmd.Process.Signal(unix.SIGSTOP)
	if _, err := unix.Wait4(cmd.Process.Pid, nil, unix.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	g.types("for the shell")
	if got := g.takes(len("for the shell")); got != "for the shell" {
		t.Errorf("the shell was typed %q", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	s.alone(t, answers)
	s.await(t, "the modes taken back", func() bool { return g.sees("\x1b[?1049l")() && g.sees("\x1b[?1000l")() })
	if after := g.modes(); !reflect.DeepEqual(after, g.before) {
		t.Errorf("the line is %+v, was %+v", after, g.before)
	}
	g.types("for the shell")
	if typed := s.typed.String(); typed != "typed" {
		t.Errorf("the agent was typed %q", typed)
	}
}

// Killed in the middle of output that changes modes, where it is the next frame to
// the viewer that fails first.
func TestTerminal_ViewerKilledWhileModesChange(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	g := s.glass(t)
	g.look()
	s.Backlog.Write([]byte("\x1b[?1049hhello"))
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), viewerVariable+"="+s.socket)
	cmd.Stdin, cmd.Stdout = g.slave, g.slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the first screen", g.sees("hello"))
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.Backlog.Write([]byte("\x1b[?1000h"))
				s.Backlog.Write([]byte("\x1b[?1000l"))
			}
		}
	})
	cmd.Process.Kill()
	cmd.Wait()
	s.gone(t)
	close(stop)
	changing.Wait()
	s.await(t, "the modes taken back", g.sees("\x1b[23;0t"))
	g.asItWas("\x1b[?1049l")
}
