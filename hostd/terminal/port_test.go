package terminal_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/terminal"
)

func ports(t *testing.T) (ports [2]*terminal.Port) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		if ports[i], err = terminal.NewPort(fd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ports[i].Close() })
	}
	return ports
}

// More than the socket holds: the writer waits for the reader and neither
// loses a byte.
func TestPort_CarriesMoreThanTheSocketHolds(t *testing.T) {
	p := ports(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	wrote := make(chan error, 1)
	go func() {
		_, err := p[0].Write(want)
		p[0].Close()
		wrote <- err
	}()
	got, err := io.ReadAll(p[1])
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(want), err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestPort_EndsByDeadlineCloseAndLostPeer(t *testing.T) {
	p := ports(t)
	p[0].SetReadDeadline(time.Unix(1, 0))
	if _, err := p[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past its deadline a read says %v", err)
	}
	p[0].SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() {
		_, err := p[0].Read(make([]byte, 1))
		ended <- err
	}()
	p[0].Close()
	if err := <-ended; err == nil {
		t.Error("a read of a closed socket succeeded")
	}
	if _, err := p[1].Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a write to nobody says %v, want EPIPE", err)
	}
}

// The writer that waits for room is woken each time there is some, past its
// deadline it gives up with what it has written, and then it can write again.
func TestPort_WriterWaitsForRoomAndNotLonger(t *testing.T) {
	p := ports(t)
	chunk := make([]byte, 64<<10)
	p[0].SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	full := 0
	for {
		n, err := p[0].Write(chunk)
		full += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p[0].SetWriteDeadline(time.Time{})
	wrote := make(chan error, 1)
	go func() {
		for range 50 { // each of them finds the socket full
			if _, err := p[0].Write(chunk); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- p[0].CloseWrite()
	}()
	got, err := io.Copy(io.Discard, p[1])
	if want := int64(full + 50*len(chunk)); err != nil || got != want {
		t.Errorf("read %d of %d bytes, %v", got, want, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func TestPort_OfConnectionOutlivesIt(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "pair")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	here, err := terminal.PortOf(conn.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	conn.Close()
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	there, err := terminal.NewPort(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 8)
		n, _ := here.Read(b)
		got <- string(b[:n])
	}()
	if _, err := there.Write([]byte("key")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "key" {
		t.Errorf("read %q", s)
	}
	here.Close()
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the close: %v", err)
	}
}
