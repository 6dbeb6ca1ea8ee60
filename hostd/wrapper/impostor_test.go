package wrapper_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/testkit/programs"
)

// impostor is another user's server on a port of ours: it reads what comes.
type impostor struct {
	net.Listener
	mu      sync.Mutex
	callers int
	heard   bytes.Buffer
}

const nobody = 65534

func startImpostor(t *testing.T, at string) *impostor {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: another user serves the port")
	}
	i := &impostor{}
	var wg sync.WaitGroup
	opened := make(chan error, 1)
	wg.Go(func() {
		runtime.LockOSThread()                           // for good: the thread is another user's
		unix.RawSyscall(unix.SYS_SETFSUID, nobody, 0, 0) // what the sockets that it makes belong to
		var err error
		i.Listener, err = net.Listen("tcp", at)
		opened <- err
		if err != nil {
			return
		}
		for {
			c, err := i.Accept()
			if err != nil {
				return
			}
			i.mu.Lock()
			i.callers++
			i.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					i.mu.Lock()
					i.heard.Write(b[:n])
					i.mu.Unlock()
					if err != nil {
						return
					}
					c.Write([]byte("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"))
				}
			})
		}
	})
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close(); wg.Wait() })
	return i
}

func (i *impostor) report(t *testing.T) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.callers == 0 {
		t.Error("nobody came: the test shows nothing")
	}
	if i.heard.Len() > 0 {
		t.Errorf("the impostor was told %q", i.heard.String())
	}
}

// Another user who took the port while the daemon was away hears nothing: no
// byte of the bearer, and no byte at all.
func TestWrapper_TellsAnImpostorNothing(t *testing.T) {
	i := startImpostor(t, "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "bearer")
	if err := os.WriteFile(file, []byte("sophia_minted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := run(t, programs.Build(t, "sophia-wrapper"), "--url", "http://"+i.Addr().String()+"/mcp", "--bearer-file", file)
	code, diag := s.end()
	if code != 3 || !strings.Contains(diag, "endpoint_foreign") || !strings.Contains(diag, "uid 65534") {
		t.Errorf("it ends with %d: %s", code, diag)
	}
	i.report(t)
}

// The daemon goes away in the middle of a session and somebody else takes its
// port.
func TestWrapper_TellsAnImpostorNothingInTheMiddleOfASession(t *testing.T) {
	e := startSurface(t, "sophia_minted")
	s := e.wrap(t)
	if got := s.call("initialize", initParams); !strings.Contains(got, `"protocolVersion"`) {
		t.Fatal(got)
	}
	e.away()
	i := startImpostor(t, strings.TrimSuffix(strings.TrimPrefix(e.url, "http://"), "/mcp"))
	if got := s.call("tools/list", `{}`); !strings.Contains(got, "endpoint_foreign") {
		t.Errorf("a call that an impostor would have got: %s", got)
	}
	i.report(t)
}
