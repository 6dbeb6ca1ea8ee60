package isolates

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// cat stands for a program of ours: it waits for its input to end.
func uidMap(t *testing.T, spawn Spawn) string {
	t.Helper()
	p, err := spawn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.(*child).cmd.Process.Pid) + "/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A process that could not be started because the daemon had too many files open
// at that moment took the namespaces from all that came after it.
func TestApart_AShortageCostsNoNamespaces(t *testing.T) {
	want := uidMap(t, Apart("/bin/cat"))
	spawn := Apart("/bin/cat")
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := spawn(t.Context())
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("with no file to be had: %v", err)
	}
	if got := uidMap(t, spawn); got != want {
		t.Errorf("the next one's user namespace is %q, without the shortage it is %q", got, want)
	}
}
