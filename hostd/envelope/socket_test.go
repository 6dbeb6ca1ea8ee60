package envelope

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sophia/actors/envelope"
	"sophia/hostd/channel"
	"sophia/hostd/harness"
	"sophia/messages/problem"
)

// A relay that refuses a wrapper after its look at it keeps nothing of it: the
// daemon lives long, and a pidfd is not the garbage collector's.
func TestSocket_WhoeverIsGivenUpIsLetGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "l")
	s, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := harness.IdentifyOwn(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	want := envelope.Want{SHA256: own.SHA256}
	open := func() (c envelope.Client, identify func()) {
		dialed, err := channel.Dial(t.Context(), filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		if c, err = s.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := dialed.Close(); err != nil {
			t.Fatal(err)
		}
		return c, func() {
			if pid, err := c.Identify(want); err != nil || pid != os.Getpid() {
				t.Fatal(pid, err)
			}
		}
	}
	for name, end := range map[string]func(c envelope.Client, identify func()){
		"refused":          func(c envelope.Client, identify func()) { identify(); c.Refuse(problem.New("relay_busy", "busy")) },
		"closed":           func(c envelope.Client, identify func()) { identify(); _ = c.Close() },
		"closed meanwhile": func(c envelope.Client, identify func()) { held := c.(*client); held.drop(); identify(); _ = c.Close() },
		"silent": func(c envelope.Client, identify func()) {
			identify()
			if right, _, err := c.Challenge(time.Minute); right || err == nil {
				t.Error("nobody answered", err)
			}
			if err := c.Again(want); problem.CodeOf(err) != "peer_gone" {
				t.Error(err)
			}
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			for range 5 {
				end(open())
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
