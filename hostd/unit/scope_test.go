package unit_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sophia/hostd/unit"
)

// A daemon started from a shell runs in no unit. It enters a scope, and
// launches bound to that end with it.
func TestUnit_EndsWithADaemonInTheForeground(t *testing.T) {
	if os.Getenv("UNIT_TEST_DAEMON") != "" {
		foreground(t)
		return
	}
	l := setup(t)
	daemon := exec.Command(os.Args[0], "-test.run=^TestUnit_EndsWithADaemonInTheForeground$")
	daemon.Env = append(os.Environ(), append(l.systemd.Env(), "UNIT_TEST_DAEMON=1")...)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) != 2 || f[0] != f[1] || !strings.HasSuffix(f[0], ".scope") {
		t.Fatalf("the daemon's scope and own unit: %q, %v", line, err)
	}
	ref := l.start(t, func(s *unit.Spec) { s.Daemon = f[0] }, "forever")
	daemon.Process.Kill()
	if alive, err := unit.WaitQuiet(within(t, 20*time.Second), ref, l.mark(), nil); err != nil {
		t.Errorf("after kill -9 of the daemon: %v %v", alive, err)
	}
}

func foreground(t *testing.T) {
	m := unit.New(os.Getenv)
	defer m.Close()
	scope, err := m.EnterScope(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own, err := m.OwnUnit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(scope, own)
	io.Copy(io.Discard, os.Stdin)
}
