package terminal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"

	"sophia/actors/supervise"
	"sophia/hostd/terminal"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/fault"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(viewerVariable); socket != "" {
		viewerProcess(socket)
		return
	}
	goleak.VerifyTestMain(m)
}

const token = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" // 32 bytes have 43 characters

// fake is a PTY that remembers.
type fake struct {
	mu    sync.Mutex
	typed bytes.Buffer
	sizes []terminal.Size
	crash bool
	event chan struct{}
}

func (f *fake) Write(_ context.Context, p []byte) error {
	f.mu.Lock()
	f.typed.Write(p)
	f.mu.Unlock()
	f.tell()
	return nil
}

func (f *fake) Resize(s terminal.Size) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crash {
		f.crash = false
		panic("injected")
	}
	f.sizes = append(f.sizes, s)
	f.tell()
	return nil
}

func (f *fake) tell() {
	select {
	case f.event <- struct{}{}:
	default:
	}
}

func (f *fake) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		f.mu.Lock()
		done := ok()
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-f.event:
		case <-limit:
			t.Fatalf("never: %s (typed %q, sizes %v)", what, f.typed.Bytes(), f.sizes)
		}
	}
}

type setup struct {
	*fake
	*terminal.Relay
	socket string
	events chan supervise.Event
}

func serve(t *testing.T, limit int, faults ...fault.Rule) *setup {
	t.Helper()
	dir, err := os.MkdirTemp("", "tr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &setup{fake: &fake{event: make(chan struct{}, 1)}, socket: filepath.Join(dir, "terminal.sock"), events: make(chan supervise.Event, 1024)}
	l, err := terminal.Listen(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	gate, err := terminal.NewGate(hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	size := terminal.Size{Rows: 24, Cols: 80}
	s.Relay = &terminal.Relay{Listener: l, Gate: gate, Backlog: terminal.NewBacklog(limit, size), Screen: s.fake, Size: size}
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := supervise.Start(e, "test", supervise.Policy{Max: 5, Within: time.Minute, Report: func(e supervise.Event) { s.events <- e }, Intercept: fault.New(faults...).Intercept},
		supervise.Spec{ID: "terminal", New: s.Relay.New})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := tree.Stop(context.Background()); len(left) > 0 || err != nil {
			t.Errorf("not stopped: %v %v", left, err)
		}
		l.Close()
	})
	return s
}

// hello is a viewer that speaks the protocol by hand.
func hello(t testing.TB, socket, token string, size terminal.Size) (net.Conn, terminal.Type, terminal.Refusal) {
	t.Helper()
	return greet(t, socket, terminal.Hello{Version: terminal.Protocol, Token: []byte(token), Size: size}, nil)
}

// helloWith sends the right token, and descriptors.
func helloWith(t testing.TB, socket string, oob []byte) (net.Conn, terminal.Type, terminal.Refusal) {
	t.Helper()
	return greet(t, socket, terminal.Hello{Version: terminal.Protocol, Token: []byte(token)}, oob)
}

func greet(t testing.TB, socket string, h terminal.Hello, oob []byte) (net.Conn, terminal.Type, terminal.Refusal) {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, 0, terminal.Refusal{Code: "unreachable"}
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	defer c.SetDeadline(time.Time{})
	p, _ := json.Marshal(h)
	var frame bytes.Buffer
	terminal.WriteFrame(&frame, terminal.FrameHello, p)
	c.WriteMsgUnix(frame.Bytes(), oob, nil)
	var buf []byte
	typ, p, err := terminal.ReadFrame(c, &buf, terminal.MaxFrame)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return c, 0, terminal.Refusal{Code: "hung"}
		}
		return c, 0, terminal.Refusal{Code: "lost"}
	}
	var r terminal.Refusal
	if typ == terminal.FrameRefused {
		json.Unmarshal(p, &r)
	}
	return c, typ, r
}

func readUntil(t *testing.T, c net.Conn, want string) (all []byte) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	var buf []byte
	for !bytes.Contains(all, []byte(want)) {
		typ, p, err := terminal.ReadFrame(c, &buf, terminal.MaxFrame)
		if err != nil || typ != terminal.FrameOutput && typ != terminal.FrameUndo {
			t.Fatalf("waiting for %q: frame %q, %v after %q", want, typ, err, all)
		}
		if typ == terminal.FrameOutput {
			all = append(all, p...)
		}
	}
	return all
}

func TestTerminal_AttachesOnceAndOnlyOnce(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	s.Backlog.Write([]byte("before\r\n"))
	const n = 1000
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]int{}
	var winner net.Conn
	for range n {
		wg.Go(func() {
			c, typ, r := hello(t, s.socket, token, terminal.Size{Rows: 30, Cols: 100})
			mu.Lock()
			defer mu.Unlock()
			if typ == terminal.FrameWelcome {
				codes["welcome"]++
				winner = c
				return
			}
			codes[r.Code]++
			if c != nil {
				c.Close()
			}
		})
	}
	wg.Wait()
	if codes["welcome"] != 1 || codes["viewer_present"] != n-1 {
		t.Fatalf("of %d parallel attempts: %v", n, codes)
	}
	readUntil(t, winner, "before")
	s.Backlog.Write([]byte("after\r\n"))
	readUntil(t, winner, "after")
	terminal.WriteFrame(winner, terminal.FrameInput, []byte("keys"))
	s.await(t, "keystrokes arrive", func() bool { return s.typed.String() == "keys" })
	winner.Close()
	// The viewer's end is seen by its worker: then the token is simply used.
	for {
		c, _, r := hello(t, s.socket, token, terminal.Size{})
		if c != nil {
			c.Close()
		}
		if r.Code == "token_consumed" {
			break
		}
		if r.Code != "viewer_present" {
			t.Fatalf("after the viewer left: %q", r.Code)
		}
	}
}

func TestTerminal_ThreeWrongTokensEndTheSocket(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	for _, wrong := range []string{"", token[:42] + "x", strings.Repeat("x", 2000)} {
		c, _, r := hello(t, s.socket, wrong, terminal.Size{})
		if r.Code != "wrong_token" {
			t.Errorf("token %.50q: %q", wrong, r.Code)
		}
		io.Copy(io.Discard, c)
		c.Close()
	}
	if c, _, r := hello(t, s.socket, token, terminal.Size{}); r.Code != "unreachable" && r.Code != "lost" {
		t.Errorf("the right token after three wrong ones: %q", r.Code)
		c.Close()
	}
	if _, err := os.Stat(s.socket); err == nil {
		t.Error("the socket is still there")
	}
	if s.Gate.Used() {
		t.Error("the token was consumed")
	}
}

func TestTerminal_RefusesOtherProtocols(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	for name, bytes := range map[string]string{
		"http":     "GET / HTTP/1.1\r\n\r\n",
		"type":     "z\x00\x00\x00\x00",
		"length":   "h\xff\xff\xff\xff",
		"big":      "h\x00\x00\x20\x00",
		"not JSON": "h\x00\x00\x00\x02xx",
		"version":  "h\x00\x00\x00\x0d{\"version\":1}",
		"input":    "i\x00\x00\x00\x01x",
	} {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte(bytes))
		var buf []byte
		typ, p, err := terminal.ReadFrame(c, &buf, terminal.MaxFrame)
		if err != nil || typ != terminal.FrameRefused || !strings.Contains(string(p), "terminal_protocol") {
			t.Errorf("%s: %q %q %v", name, typ, p, err)
		}
		c.Close()
	}
	if s.typed.Len() > 0 {
		t.Errorf("typed %q", s.typed.String())
	}
}

func TestTerminal_SizeFollowsTheViewerWithALowerClampAndARedraw(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	c, _, _ := hello(t, s.socket, token, terminal.Size{Rows: 24, Cols: 80}) // as it is already
	defer c.Close()
	last := func() terminal.Size { return s.sizes[len(s.sizes)-1] }
	s.await(t, "two changes of size on attach", func() bool {
		return len(s.sizes) >= 2 && s.sizes[0] != last() && last() == terminal.Size{Rows: 24, Cols: 80}
	})
	for _, size := range []terminal.Size{{Rows: 50, Cols: 132}, {Rows: 1, Cols: 1}, {Rows: 60000, Cols: 60000}} {
		terminal.WriteFrame(c, terminal.FrameResize, size.Encode())
	}
	s.await(t, "the sizes, clamped", func() bool {
		n := len(s.sizes)
		return n >= 3 && s.sizes[n-3] == terminal.Size{Rows: 50, Cols: 132} && s.sizes[n-2] == terminal.Size{Rows: 10, Cols: 40} && s.sizes[n-1] == terminal.Size{Rows: 1000, Cols: 1000}
	})
}

func TestTerminal_StalledViewerBlocksNothingAndIsResynchronized(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	c, _, _ := hello(t, s.socket, token, terminal.Size{Rows: 24, Cols: 80})
	defer c.Close()
	// The viewer reads nothing while 40 MB go by; each write returns at once, or
	// this test never ends.
	line := []byte("\x1b[32m" + strings.Repeat("flood ", 12) + "\x1b[m\r\n")
	for range 40 << 20 / len(line) {
		s.Backlog.Write(line)
	}
	s.Backlog.Write([]byte("\x1b[?1049h\x1b[2J\x1b[Hlast words"))
	all := readUntil(t, c, "last words")
	if len(all) > 8<<20 {
		t.Errorf("a viewer that fell behind was fed %d bytes", len(all))
	}
	if got, want := screen(all), screen([]byte("\x1b[?1049h\x1b[2J\x1b[Hlast words")); got != want {
		t.Errorf("it sees\n%s\nwant\n%s", got, want)
	}
}

func TestTerminal_ClipboardIsOffByDefault(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := serve(t, terminal.DefaultBacklog)
		s.Backlog.Clipboard = on
		write := "\x1b]52;c;aGk=\a"
		s.Backlog.Write([]byte("a" + write))
		c, _, _ := hello(t, s.socket, token, terminal.Size{})
		s.Backlog.Write([]byte("b\x1b]52;"))
		s.Backlog.Write([]byte("c;aGk=\x1b\\end"))
		all := readUntil(t, c, "end")
		c.Close()
		if got := bytes.Count(all, []byte("\x1b]52;")); got != map[bool]int{false: 0, true: 2}[on] {
			t.Errorf("clipboard %v: %d writes reached the viewer", on, got)
		}
	}
}

func TestTerminal_QueriesAreAnsweredOnlyWhileNobodyLooks(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	var answers []string
	s.Backlog.Answer = func(a string) { answers = append(answers, a) }
	s.Backlog.Write([]byte("\x1b[6"))
	s.Backlog.Write([]byte("n\x1b[c"))
	if fmt.Sprintf("%q", answers) != `["\x1b[1;1R" "\x1b[?62;22c"]` {
		t.Errorf("answers %q", answers)
	}
	c, _, _ := hello(t, s.socket, token, terminal.Size{})
	defer c.Close()
	s.Backlog.Write([]byte("\x1b[5nend"))
	all := readUntil(t, c, "end")
	if bytes.Contains(all, []byte("\x1b[6n")) || bytes.Contains(all, []byte("\x1b[c")) {
		t.Errorf("old questions are replayed: %q", all)
	}
	if !bytes.Contains(all, []byte("\x1b[5n")) || len(answers) != 2 {
		t.Errorf("a new question must go to the viewer's terminal: %q, %q", all, answers)
	}
}

// The client, with pipes in place of a terminal.
func TestViewer_ShowsTypesAndEnds(t *testing.T) {
	s := serve(t, terminal.DefaultBacklog)
	s.Backlog.Write([]byte("\x1b[?1049h\x1b[?25l\x1b[>1uhello"))
	for _, c := range []struct {
		name string
		keys string
		end  bool
	}{{"detach", "a\x1cb\x1c\x1cc\x1cdnever", false}, {"exit", "", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, terminal.DefaultBacklog)
			s.Backlog.Write([]byte("\x1b[?1049h\x1b[?25l\x1b[>1uhello"))
			in, typing, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			shown, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer typing.Close()
			var saw []byte
			var wg sync.WaitGroup
			wg.Go(func() { saw, _ = io.ReadAll(shown); shown.Close() })
			sec, _ := secret.New([]byte(token))
			defer sec.Zero()
			typing.Write([]byte(c.keys))
			if c.end {
				s.Backlog.Close(terminal.Exit{Code: 7, Signal: ""})
			}
			ending, err := terminal.Viewer{Socket: s.socket, In: in, Out: out}.Attach(t.Context(), sec)
			out.Close()
			wg.Wait()
			if err != nil || ending.Detached == c.end || c.end && ending.Exit.Code != 7 {
				t.Fatalf("%+v, %v", ending, err)
			}
			if !c.end {
				s.await(t, "the keys", func() bool { return s.typed.String() == "a\x1cb\x1cc" })
			}
			after := screen(saw)
			if !strings.Contains(after, "alt=false") || !strings.Contains(after, "hidden=false") {
				t.Errorf("the viewer's terminal is left as: %s", after)
			}
			if c.end && !bytes.Contains(saw, []byte("hello")) {
				t.Errorf("it saw %q", saw)
			}
		})
	}
	_, err := terminal.Viewer{Socket: s.socket + "x", In: os.Stdin, Out: os.Stdout}.Attach(t.Context(), nil)
	if problem.CodeOf(err) != "terminal_unreachable" {
		t.Errorf("no socket: %v", err)
	}
	sec, _ := secret.New([]byte("wrong"))
	defer sec.Zero()
	_, err = terminal.Viewer{Socket: s.socket, In: os.Stdin, Out: os.Stdout}.Attach(t.Context(), sec)
	if problem.CodeOf(err) != "wrong_token" || problem.Of(err).Hint == "" {
		t.Errorf("wrong token: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	terminal.WriteFrame(&b, terminal.FrameInput, []byte("x"))
	terminal.WriteFrame(&b, terminal.FrameResize, terminal.Size{Rows: 1, Cols: 2}.Encode())
	f.Add(b.Bytes())
	f.Add([]byte("h\xff\xff\xff\xff"))
	f.Add([]byte("o\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var buf, back []byte
		for {
			typ, p, err := terminal.ReadFrame(r, &buf, 1<<10)
			if err != nil {
				if len(p) > 0 || !errors.Is(err, terminal.ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%v with %d bytes", err, len(p))
				}
				break
			}
			if len(p) > 1<<10 {
				t.Fatalf("%d bytes", len(p))
			}
			var w bytes.Buffer
			if err := terminal.WriteFrame(&w, typ, p); err != nil {
				t.Fatal(err)
			}
			back = append(back, w.Bytes()...)
			terminal.DecodeSize(p)
		}
		if !bytes.HasPrefix(in, back) {
			t.Fatalf("%q was read as %q", in, back)
		}
	})
}
