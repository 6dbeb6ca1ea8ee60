package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"sophia/messages/problem"
)

func TestAcceptor_IsTheUserWhoServes(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			if at == "[::1]:0" {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		host := "127.0.0.1"
		if at == "[::1]:0" {
			host = "::1"
		}
		c, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// Nobody has accepted it: there is nobody to trust.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if uid, err := Acceptor(ctx, c.(*net.TCPConn)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, not accepted: uid %d, %v", at, uid, err)
		}
		cancel()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if uid, err := Acceptor(t.Context(), c.(*net.TCPConn)); err != nil || int(uid) != os.Geteuid() {
			t.Errorf("%s: uid %d, %v", at, uid, err)
		}
		server.(*net.TCPConn).SetLinger(0)
		server.Close()
		if uid, err := Acceptor(t.Context(), c.(*net.TCPConn)); problem.CodeOf(err) != "peer_gone" {
			t.Errorf("%s, closed: uid %d, %v", at, uid, err)
		}
	}
}
