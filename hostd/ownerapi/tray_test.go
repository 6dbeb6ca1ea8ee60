package ownerapi

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"sophia/hostd/ownerkey"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
)

// thief makes this test binary, started again, answer a challenge on a
// connection that it was given as descriptor 3.
const thief = "SOPHIA_TEST_THIEF"

// asker makes this test binary, started again, propose a launch by the socket in
// the folder that it names, and say on fd 3 what became of it.
const asker = "SOPHIA_TEST_ASKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asker); dir != "" {
		key, err := ownerkey.LoadOrCreate(filepath.Join(dir, "owner.key"))
		if err != nil {
			os.Exit(1)
		}
		client, err := NewClient(filepath.Join(dir, "o.sock"), key)
		if err != nil {
			os.Exit(1)
		}
		l, err := client.Propose(context.Background(), "ws-1", StartRequest{})
		fmt.Fprintf(os.NewFile(3, "said"), "%s %v", l.Reason, err)
		os.Exit(0)
	}
	if os.Getenv(thief) != "" {
		conn, err := net.FileConn(os.NewFile(3, "stolen"))
		if err == nil {
			err = answerChallenge(conn.(*net.UnixConn), unsealed)
		}
		if err != nil {
			os.Exit(1)
		}
		io.Copy(io.Discard, conn)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// thisProgram takes the test binary itself for the packaged tray.
func thisProgram(t *testing.T) KernelPresence {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return KernelPresence{SHA256: hex.EncodeToString(sum[:])}
}

func unsealed() error { return nil }

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestTray_SeesAndAnswers(t *testing.T) {
	s := serve(t, thisProgram(t))
	s.approvals = []messages.ApprovalRequest{{ID: "ap-1", Digest: "d1", Code: "QWRTZ", Title: "Remember a fact"}}
	tray, err := s.client.Tray(within(t), "terminal on \x1b[2J/dev/pts/3", unsealed)
	if err != nil {
		t.Fatal(err)
	}
	defer tray.Close()
	events, err := tray.Next(within(t))
	if err != nil || len(events) != 1 || events[0].Request.Code != "QWRTZ" {
		t.Fatalf("at the start: %+v, %v", events, err)
	}
	s.events <- []messages.TrayEvent{{Kind: messages.TrayAsked, Request: &messages.ApprovalRequest{ID: "ap-2"}}}
	if events, err = tray.Next(within(t)); err != nil || len(events) != 1 || events[0].Request.ID != "ap-2" {
		t.Fatalf("live: %+v, %v", events, err)
	}
	if err := tray.Decide(within(t), "ap-1", "d1", messages.OutcomeApproved, ""); err != nil {
		t.Fatal(err)
	}
	if err := tray.Decide(within(t), "ap-1", "d1", messages.OutcomeDenied, ""); problem.CodeOf(err) != "approval_already_decided" {
		t.Errorf("a second answer: %v", err)
	}
}

// A tray that can't close itself to other processes answers no challenge.
func TestTray_SealsBeforeItAnswers(t *testing.T) {
	s := serve(t, thisProgram(t))
	open := errors.New("still open")
	if _, err := s.client.Tray(within(t), "tray", func() error { return open }); problem.CodeOf(err) != "approval_needs_presence" || !errors.Is(err, open) {
		t.Errorf("not sealed: %v", err)
	}
	sealed := false
	tray, err := s.client.Tray(within(t), "tray", func() error { sealed = true; return nil })
	if err != nil || !sealed {
		t.Fatalf("sealed %v, %v", sealed, err)
	}
	tray.Close()
}

func TestTray_NothingWaits(t *testing.T) {
	s := serve(t, thisProgram(t))
	tray, err := s.client.Tray(within(t), "tray", unsealed)
	if err != nil {
		t.Fatal(err)
	}
	defer tray.Close()
	if events, err := tray.Next(within(t)); err != nil || len(events) != 0 {
		t.Fatalf("%+v, %v", events, err)
	}
}

func TestTray_IsToldThatTheDaemonStops(t *testing.T) {
	s := serve(t, thisProgram(t))
	tray, err := s.client.Tray(within(t), "tray", unsealed)
	if err != nil {
		t.Fatal(err)
	}
	defer tray.Close()
	if _, err := tray.Next(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := tray.Next(within(t)); problem.CodeOf(err) != "daemon_unreachable" {
		t.Errorf("next: %v", err)
	}
	if err := tray.Decide(within(t), "ap-1", "d", messages.OutcomeApproved, ""); problem.CodeOf(err) != "daemon_unreachable" {
		t.Errorf("decide: %v", err)
	}
	s.start(t, thisProgram(t)) // and it connects again, to another run
	again, err := s.client.Tray(within(t), "tray", unsealed)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// The owner's key alone approves nothing, whichever way it is tried.
func TestApproval_NeedsPresence(t *testing.T) {
	other := KernelPresence{SHA256: strings.Repeat("0", 64)}
	for name, presence := range map[string]Presence{"another program": other, "no tray installed": nil} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, presence)
			s.approvals = []messages.ApprovalRequest{{ID: "ap-1", Digest: "d", Code: "QWRTZ"}}
			if _, err := s.client.Tray(within(t), "tray", unsealed); problem.CodeOf(err) != "approval_needs_presence" {
				t.Errorf("as a tray: %v", err)
			}
			_, err := s.client.do(within(t), "POST", "/approvals/ap-1/verdict", map[string]string{"outcome": "approved", "digest": "d"})
			if problem.CodeOf(err) != "approval_needs_presence" {
				t.Errorf("by request: %v", err)
			}
			page, err := s.client.Approvals(within(t))
			if err != nil || len(page.Items) != 1 || page.Items[0].Code != "" {
				t.Errorf("the list shows the code: %+v, %v", page, err)
			}
			if len(s.decided) != 0 {
				t.Errorf("decided: %v", s.decided)
			}
		})
	}
	t.Run("nobody's terminal", func(t *testing.T) {
		here := thisProgram(t)
		here.Terminal = func(context.Context, peer.Terminal) error {
			return problem.New("tray_not_at_login", "the terminal pts/4 is of no login of yours").WithHint("Run it where you logged in.")
		}
		s := serve(t, here)
		_, err := s.client.Tray(within(t), "tray", unsealed)
		// A test has no terminal, or one that it does not read: that is refused as well.
		if p := problem.Of(err); p.Code != "approval_needs_presence" || !strings.Contains(p.Message, "terminal") || !strings.HasPrefix(p.Hint, "Run it ") {
			t.Errorf("%v (%s)", err, p.Hint)
		}
	})
	t.Run("over loopback", func(t *testing.T) {
		s := serve(t, thisProgram(t))
		web := httptest.NewServer(s.server)
		defer web.Close()
		r := s.signed(t, "GET", "/tray?name=x", "")
		r.RequestURI = ""
		r.URL.Host = strings.TrimPrefix(web.URL, "http://")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", trayProtocol)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := readProblem(resp); problem.CodeOf(err) != "approval_needs_presence" {
			t.Errorf("%v", err)
		}
	})
}

// upgrade asks for a tray's connection and stops before the challenge.
func (s *served) upgrade(t *testing.T) *net.UnixConn {
	t.Helper()
	r := s.signed(t, "GET", "/tray?name=x", "")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", trayProtocol)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(oneByte{conn}, 16), r)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	return conn
}

// ended says whether the daemon hung up without telling anything.
func ended(conn net.Conn) bool {
	text, err := io.ReadAll(conn)
	return err == nil && len(text) == 0
}

func TestTray_StolenConnectionIsWorthNothing(t *testing.T) {
	s := serve(t, thisProgram(t))
	s.approvals = []messages.ApprovalRequest{{ID: "ap-1", Code: "QWRTZ"}}
	conn := s.upgrade(t)
	file, err := conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// The same genuine program, but not the process that was checked.
	cmd := exec.CommandContext(within(t), "/proc/self/exe")
	cmd.Env = append(os.Environ(), thief+"=1")
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Run(); err != nil {
		t.Fatalf("the thief could not even answer: %v", err)
	}
	if !ended(conn) {
		t.Error("the thief was served")
	}
}

func TestTray_WrongOrNoAnswerIsRefused(t *testing.T) {
	s := serve(t, thisProgram(t))
	for name, answer := range map[string]func(nonce []byte) []byte{
		"the nonce itself":      func(nonce []byte) []byte { return append(nonce, 0, 0, 0, 0) },
		"text":                  func([]byte) []byte { return []byte(strings.Repeat("Sophia tray\n", 8))[:36] },
		"another nonce's":       func([]byte) []byte { return answerTo(make([]byte, nonceSize)) },
		"a decide in its place": func([]byte) []byte { return []byte(`{"type":"decide","id":"ap-1","outcome":"approved"}` + "\n") },
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.upgrade(t)
			nonce := make([]byte, nonceSize)
			if _, err := io.ReadFull(conn, nonce); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(answer(nonce)); err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(conn) // a reset is as good an end as any
			if len(text) > 0 {
				t.Errorf("served: %q", text)
			}
		})
	}
	t.Run("hanging up", func(t *testing.T) {
		conn := s.upgrade(t)
		conn.CloseWrite()
		nonce := make([]byte, nonceSize)
		io.ReadFull(conn, nonce)
		if !ended(conn) {
			t.Error("served")
		}
	})
	if len(s.decided) != 0 {
		t.Errorf("decided: %v", s.decided)
	}
}

func FuzzTray_Line(f *testing.F) {
	for _, seed := range []string{
		`{"type":"decide","seq":1,"id":"ap-1","digest":"d","outcome":"approved"}`,
		`{"type":"event","event":{"kind":"asked"}}`, `{"type":"decide","outcome":"withdrawn"}`, `{`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line, err := parseTrayLine(text)
		if err != nil {
			return
		}
		if line.Outcome != messages.OutcomeApproved && line.Outcome != messages.OutcomeDenied || line.Event != nil {
			t.Fatalf("%q gave %+v", text, line)
		}
		if again, err := json.Marshal(line); err != nil || !json.Valid(again) {
			t.Fatal(err)
		}
	})
}

// A tray that comes while the daemon goes is told so: it must come again.
func TestTray_ComesWhileTheDaemonStops(t *testing.T) {
	s := serve(t, thisProgram(t))
	s.server.mu.Lock()
	s.server.closed = true // as Shutdown begins, before the socket is closed
	s.server.mu.Unlock()
	if _, err := s.client.Tray(within(t), "tray", unsealed); problem.CodeOf(err) != "daemon_stopping" {
		t.Errorf("%v, want daemon_stopping", err)
	}
}

// What is asked for at a terminal of the owner's logins is told from what any
// program asks for that has read the owner's key.
func TestAsked_AtATerminalOfTheOwners(t *testing.T) {
	mine, far, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	defer far.Close()
	made, own, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	defer own.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(far.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil)
	s.login = func(_ context.Context, at peer.Terminal) error {
		if at.Device != st.Rdev {
			return errors.New("no login's")
		}
		return nil
	}
	if err := s.server.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	s.start(t, nil)
	ask := func(terminal *os.File) string {
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c := exec.Command(os.Args[0])
		c.Env, c.ExtraFiles = append(os.Environ(), asker+"="+s.dir), []*os.File{w}
		if terminal != nil {
			c.Stdin, c.Stdout, c.Stderr = terminal, terminal, terminal
			c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
		}
		err = c.Start()
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(r)
		if werr := c.Wait(); err != nil || werr != nil {
			t.Fatalf("%v, %v", err, werr)
		}
		return string(said)
	}
	if got, want := ask(far), strings.TrimPrefix(far.Name(), "/dev/")+" <nil>"; got != want {
		t.Errorf("at the owner's: %q, want %q", got, want)
	}
	if got := ask(own); got != " <nil>" {
		t.Errorf("at one that a program made: %q", got)
	}
	if got := ask(nil); got != " <nil>" {
		t.Errorf("without one: %q", got)
	}
}
