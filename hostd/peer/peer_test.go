package peer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"sophia/messages/problem"
)

// The test binary is also the client: with PEER_TEST_DIAL it connects, says so
// and waits for the end of its input.
func TestMain(m *testing.M) {
	if path := os.Getenv("PEER_TEST_DIAL"); path != "" {
		c, err := net.Dial("unixpacket", path)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("connected\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		c.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func noPidfd(int) int { return -1 }

// client is a connected child and the server's end of its connection.
func client(t *testing.T, attr *syscall.SysProcAttr) (conn *net.UnixConn, pid int, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "client")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{"PEER_TEST_DIAL=" + path}
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
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
	end = func() { stdin.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	if s := bufio.NewScanner(out); !s.Scan() {
		t.Fatal("the client did not connect")
	}
	conn, err = l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, cmd.Process.Pid, end
}

func ownDigest(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Both paths: with SO_PEERPIDFD where this kernel has it, and without.
func each(t *testing.T, f func(t *testing.T, pidfdOf func(int) int)) {
	t.Run("pidfd", func(t *testing.T) { f(t, peerPidfd) })
	t.Run("no pidfd", func(t *testing.T) { f(t, noPidfd) })
}

func TestPeer_IsWhoTheKernelSays(t *testing.T) {
	each(t, func(t *testing.T, pidfdOf func(int) int) {
		conn, pid, end := client(t, nil)
		p, err := of(conn, pidfdOf)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		group, err := p.ControlGroup()
		if err != nil {
			t.Fatal(err)
		}
		want := Want{UID: uint32(os.Getuid()), SHA256: ownDigest(t), ControlGroup: group}
		if err := p.Check(want); err != nil || p.PID != pid {
			t.Errorf("process %d, started was %d: %v", p.PID, pid, err)
		}
		if err := p.Recheck(want); err != nil {
			t.Errorf("again: %v", err)
		}
		for code, w := range map[string]Want{
			"peer_wrong_user":       {UID: want.UID + 1, SHA256: want.SHA256},
			"peer_wrong_executable": {UID: want.UID, SHA256: "00"},
			"peer_outside_unit":     {UID: want.UID, SHA256: want.SHA256, ControlGroup: "/sophia.slice/sophia-launch-lp-1.service"},
		} {
			if err := p.Check(w); problem.CodeOf(err) != code {
				t.Errorf("%v, want %s", err, code)
			}
		}
		if err := p.Check(Want{UID: want.UID}); problem.CodeOf(err) != "peer_wrong_executable" {
			t.Errorf("no digest given: %v; must match nothing", err)
		}
		end()
		if err := p.Recheck(want); problem.CodeOf(err) != "peer_gone" {
			t.Errorf("after its end: %v", err)
		}
		if err := p.Check(want); problem.CodeOf(err) != "peer_gone" {
			t.Errorf("checked after its end: %v", err)
		}
		if p, err := of(conn, pidfdOf); problem.CodeOf(err) != "peer_gone" {
			p.Close()
			t.Errorf("asked after its end: %v", err)
		}
	})
}

func TestPeer_AnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to start a process as another user")
	}
	conn, _, _ := client(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	p, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Check(Want{UID: 0, SHA256: ownDigest(t)}); problem.CodeOf(err) != "peer_wrong_user" || p.UID != 65534 {
		t.Errorf("uid %d: %v", p.UID, err)
	}
}

func TestPeer_StatusOfATracedOrChangedProcess(t *testing.T) {
	const rest = "Name:\tsophia-wrapper\nState:\tS (sleeping)\n"
	for status, code := range map[string]string{
		rest + "TracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\n":  "",
		rest + "TracerPid:\t77\nUid:\t1000\t1000\t1000\t1000\n": "peer_traced",
		rest + "TracerPid:\t0\nUid:\t1000\t0\t1000\t1000\n":     "peer_wrong_user",
		rest + "Uid:\t1000\t1000\t1000\t1000\n":                 "peer_traced",
		rest + "TracerPid:\t0\n":                                "peer_wrong_user",
		"":                                                      "peer_wrong_user",
	} {
		if err := checkStatus(status, 1, 1000); problem.CodeOf(err) != code {
			t.Errorf("%q: %v, want %q", status, err, code)
		}
	}
}

func FuzzSystemdGroup(f *testing.F) {
	f.Add("0::/user.slice/user-1000.slice/user@1000.service/app.slice/sophia-launch-lp-1.service\n")
	f.Add("9:name=systemd:/init.scope\n8:pids:/init.scope\n0::/init.scope\n")
	f.Add("12:cpu,cpuacct:/\n1:name=systemd:/a:b\n0::/a:b\n")
	f.Fuzz(func(t *testing.T, text string) {
		group, unified := systemdGroup(text)
		if group == "" && unified != "" {
			t.Errorf("%q: a unified group %q and no group", text, unified)
		}
	})
}

func TestPeer_GroupNames(t *testing.T) {
	for text, want := range map[string][2]string{
		"0::/user.slice/a.service\n":                       {"/user.slice/a.service", "/user.slice/a.service"},
		"9:name=systemd:/a.service\n1:cpu:/\n0::/\n":       {"/a.service", "/"},
		"12:cpu,cpuacct:/\n1:name=systemd:/a:b\n0::/a:b\n": {"/a:b", "/a:b"},
		"9:name=systemd:/\n0::/u/a.service\n":              {"/u/a.service", "/u/a.service"}, // a user's manager in a container
		"1:cpu:/\n":                                        {"", ""},
	} {
		if group, unified := systemdGroup(text); group != want[0] || unified != want[1] {
			t.Errorf("%q: %q %q", text, group, unified)
		}
	}
}

func TestPeer_ATracedProcessIsRefused(t *testing.T) {
	conn, pid, _ := client(t, nil)
	p, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := Want{UID: uint32(os.Getuid()), SHA256: ownDigest(t)}
	if err := p.Check(want); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(pid); err != nil {
		t.Fatalf("this test needs to trace its own child: %v", err)
	}
	if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Recheck(want); problem.CodeOf(err) != "peer_traced" {
		t.Errorf("while it is traced: %v", err)
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
	if err := p.Recheck(want); err != nil {
		t.Errorf("after it was let go: %v", err)
	}
}
