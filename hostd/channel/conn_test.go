package channel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/channel"
	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// pair is a raw client and the server's end of its channel.
func pair(t *testing.T) (*net.UnixConn, *channel.Conn) {
	t.Helper()
	path := filepath.Join(socketDir(t), "s")
	l, err := channel.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	raw, err := net.Dial("unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close(); c.Close() })
	return raw.(*net.UnixConn), c
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func TestChannel_RefusesWhatIsNoFrame(t *testing.T) {
	tests := []struct {
		name   string
		packet []byte
		code   string
	}{
		{"text", []byte(`{"jsonrpc":"2.0"}` + "\n"), "frame_malformed"},
		{"half a header", []byte{0xF5, 'S', 'E'}, "frame_malformed"},
		{"more than a frame", make([]byte, channel.MaxFrame+1), "frame_too_large"},
		{"much more than a frame", make([]byte, 100_000), "frame_too_large"},
	}
	for _, tt := range tests {
		raw, c := pair(t)
		if _, err := raw.Write(tt.packet); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Receive(patience); problem.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
	}
}

func TestChannel_TakesNoDescriptors(t *testing.T) {
	raw, c := pair(t)
	devNull, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer devNull.Close()
	before := openDescriptors(t)
	_, _, err = raw.WriteMsgUnix([]byte("x"), unix.UnixRights(int(devNull.Fd()), int(devNull.Fd())), nil)
	if err != nil && !errors.Is(err, unix.EPERM) { // EPERM: the kernel has SO_PASSRIGHTS
		t.Fatal(err)
	}
	if err == nil {
		if _, _, err := c.Receive(patience); problem.CodeOf(err) != "descriptors_refused" && problem.CodeOf(err) != "frame_malformed" {
			t.Errorf("received with %v", err)
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func TestChannel_TellsWhoSentAPacket(t *testing.T) {
	raw, c := pair(t)
	n := channel.NewNonce()
	if err := c.Challenge(n, patience); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	k, err := raw.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	b[4] = byte(channel.Answer)
	if _, err := raw.Write(b[:k]); err != nil {
		t.Fatal(err)
	}
	f, from, err := c.Receive(patience)
	if err != nil || !n.Answers(f) || from.PID != os.Getpid() || from.UID != uint32(os.Getuid()) {
		t.Errorf("answer %v from %+v: %v", f.Kind, from, err)
	}
	if channel.NewNonce().Answers(f) {
		t.Error("an answer to one challenge answers another")
	}
}

func TestChannel_SilenceAndEnd(t *testing.T) {
	raw, c := pair(t)
	if _, _, err := c.Receive(time.Millisecond); problem.CodeOf(err) != "channel_silent" {
		t.Errorf("a silent peer: %v", err)
	}
	raw.Close()
	if _, _, err := c.Receive(patience); !errors.Is(err, io.EOF) {
		t.Errorf("a peer that went away: %v", err)
	}
}

func TestChannel_RefusalArrivesWithItsCode(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	l, err := channel.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refused := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			refused <- err
			return
		}
		_, err = channel.Attest(c, peer.Want{UID: uint32(os.Getuid()), SHA256: "00"}, patience)
		c.Refuse(err, patience)
		refused <- err
	}()
	c, err := channel.Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Respond(patience, func() error { t.Error("made ready for a refusal"); return nil })
	if problem.CodeOf(err) != "peer_wrong_executable" {
		t.Errorf("the client was told %v", err)
	}
	if err := <-refused; problem.CodeOf(err) != "peer_wrong_executable" {
		t.Errorf("the server found %v", err)
	}
}

func TestChannel_SocketIsPrivate(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	if err := os.WriteFile(path, nil, 0o666); err != nil { // a dead one is replaced
		t.Fatal(err)
	}
	l, err := channel.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}
