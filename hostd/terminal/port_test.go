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

func ports(t *testing.T) (conns [2]*net.UnixConn, ports [2]terminal.Port) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
		if ports[i], err = terminal.NewPort(conns[i]); err != nil {
			t.Fatal(err)
		}
	}
	return conns, ports
}

// More than the socket holds: the writer waits for the reader and neither
// loses a byte.
func TestPort_CarriesMoreThanTheSocketHolds(t *testing.T) {
	conns, p := ports(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	wrote := make(chan error, 1)
	go func() {
		_, err := p[0].Write(want)
		conns[0].Close()
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
	conns, p := ports(t)
	conns[0].SetReadDeadline(time.Unix(1, 0))
	if _, err := p[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past its deadline a read says %v", err)
	}
	conns[0].SetReadDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() {
		_, err := p[0].Read(make([]byte, 1))
		ended <- err
	}()
	conns[0].Close()
	if err := <-ended; err == nil {
		t.Error("a read of a closed socket succeeded")
	}
	if _, err := p[1].Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a write to nobody says %v, want EPIPE", err)
	}
}
