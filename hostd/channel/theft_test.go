package channel_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sophia/hostd/channel"
	"sophia/hostd/peer"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/programs"
)

const patience = 20 * time.Second

// build compiles one of the testdata programs.
func build(t *testing.T, name string) string {
	t.Helper()
	return programs.Package(t, "sophia/hostd/channel/testdata/"+name)
}

func digest(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// program runs a program whose output can be awaited line by line.
type program struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func start(t *testing.T, path string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(path, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd, stdin, bufio.NewScanner(out)}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

func (p *program) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("%s ended without a line: %v", p.cmd.Path, p.lines.Err())
	}
	return p.lines.Text()
}

// The theft of the design's probe, in two forms, against a check of the
// executable alone and against the challenge.
func TestChannel_TheftBeatsThePlainCheckAndNotTheChallenge(t *testing.T) {
	genuine, thief := build(t, "genuine"), build(t, "thief")
	want := peer.Want{UID: uint32(os.Getuid()), SHA256: digest(t, genuine)}
	const credential = "sophia_secret_of_this_launch"

	steal := func(t *testing.T, mode string, serve func(*channel.Conn) error) (stolen bool, err error) {
		dir := socketDir(t)
		l, err := channel.Listen(filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := start(t, thief, filepath.Join(dir, "s"), genuine, filepath.Join(dir, "loot"), mode)
		if got := p.line(t); got != "ready" {
			t.Fatal(got)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		serveErr := serve(c)
		c.Close()
		p.stdin.Close()
		for p.lines.Scan() { // until the child, the last to hold the pipe, has ended
		}
		loot, err := os.ReadFile(filepath.Join(dir, "loot"))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(loot, []byte(credential)), serveErr
	}
	hand := func(c *channel.Conn) error {
		s, err := secret.New([]byte(credential))
		if err != nil {
			return err
		}
		defer s.Zero()
		return c.Send(channel.Frame{Kind: channel.Envelope, Secret: s}, patience)
	}
	plain := func(c *channel.Conn) error {
		p, err := c.Peer()
		if err != nil {
			return err
		}
		defer p.Close()
		if err := p.Check(want); err != nil {
			return err
		}
		return hand(c)
	}
	challenged := func(c *channel.Conn) error {
		p, err := channel.Attest(c, want, patience)
		if err != nil {
			return err
		}
		defer p.Close()
		return hand(c)
	}

	if stolen, err := steal(t, "answer", plain); err != nil || !stolen {
		t.Errorf("the attack does not work against the plain check any more (stolen %v, %v): this test shows nothing", stolen, err)
	}
	for _, mode := range []string{"answer", "forward"} {
		stolen, err := steal(t, mode, challenged)
		if stolen {
			t.Errorf("%s: the credential was stolen", mode)
		}
		if problem.CodeOf(err) != "challenge_failed" || !strings.Contains(err.Error(), "in place of") {
			t.Errorf("%s: refused with %v, want challenge_failed by another process's answer", mode, err)
		}
	}
}

func TestChannel_GenuineIsServedAsRootAndAsAnOrdinaryUser(t *testing.T) {
	if at := os.Getenv("CHANNEL_TEST_GENUINE"); at != "" {
		serveGenuine(t, at, os.Getenv("CHANNEL_TEST_DIR"))
		return
	}
	genuine := build(t, "genuine")
	serveGenuine(t, genuine, socketDir(t))
	if os.Getuid() != 0 {
		return // that was the ordinary user
	}
	// Root reads /proc/<pid>/exe of an undumpable process; an ordinary user's
	// daemon can't, so the same again as nobody.
	dir := socketDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(dir, "p")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(private, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{genuine: "genuine", os.Args[0]: "test"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"CHANNEL_TEST_GENUINE=" + filepath.Join(dir, "genuine"), "CHANNEL_TEST_DIR=" + private, "TMPDIR=" + private}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func serveGenuine(t *testing.T, genuine, dir string) {
	l, err := channel.Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, genuine, filepath.Join(dir, "s"))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	who, err := channel.Attest(c, peer.Want{UID: uint32(os.Getuid()), SHA256: digest(t, genuine)}, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer who.Close()
	if who.PID != p.cmd.Process.Pid {
		t.Errorf("the peer is process %d, started was %d", who.PID, p.cmd.Process.Pid)
	}
	s, err := secret.New([]byte("handle"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Zero()
	if err := c.Send(channel.Frame{Kind: channel.Envelope, Secret: s}, patience); err != nil {
		t.Fatal(err)
	}
	if got, want := p.line(t), fmt.Sprintf("served %x", sha256.Sum256([]byte("handle"))); got != want {
		t.Errorf("the program says %q, want %q", got, want)
	}
}
