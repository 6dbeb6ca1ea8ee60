package wrapper

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// daemon is the HTTP side: a client whose connections put the bearer in.
type daemon struct {
	url         string
	placeholder string
	http        *http.Client
}

// newDaemon accepts loopback addresses over plain HTTP only: the bearer is not
// to leave the machine.
func newDaemon(endpoint string, bearer *secret.Secret) (*daemon, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return nil, problem.New("url_not_loopback", "%q is not a plain HTTP URL", endpoint).WithHint("Use the address that sophia status shows.")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, problem.New("url_not_loopback", "%q is not on this machine; the bearer is not sent there", endpoint).WithHint("Use the address that sophia status shows.")
	}
	size := 0
	if err := bearer.Use(func(b []byte) error { size = len(b); return nil }); err != nil {
		return nil, err
	}
	d := &daemon{url: endpoint, placeholder: placeholder(size)}
	dialer := &net.Dialer{Timeout: dialTime}
	d.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				if err := ownDaemon(ctx, c.(*net.TCPConn)); err != nil {
					c.Close()
					return nil, err
				}
				return &bearerConn{c, []byte(d.placeholder), bearer}, nil
			},
			DisableCompression:  true,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     time.Minute,
		},
	}
	return d, nil
}

// dialTime bounds a connection and its acceptance.
const dialTime = 5 * time.Second

// ownDaemon requires the port to be served by this user. While the daemon is
// away, anybody may listen there and be sent the bearer.
func ownDaemon(ctx context.Context, c *net.TCPConn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	uid, err := peer.Acceptor(ctx, c)
	if problem.CodeOf(err) == "peer_gone" {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: c.RemoteAddr(), Err: errStale}
	}
	if err == nil && int(uid) != os.Geteuid() {
		err = problem.New("endpoint_foreign", "%s is served by another user (uid %d); the bearer was not sent there", c.RemoteAddr(), uid).
			WithHint("Find out who has the port: ss -ltnp. Then start Sophia: sophia up")
	}
	return err
}

// placeholder is random text of n characters. It has at least 128 random bits
// where n allows it, so that no message contains it by chance or by design.
func placeholder(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)[:n]
}

// bearerConn replaces the placeholder in what is written by the bearer. A
// request's header is one write (net/http buffers 4 KiB and starts each request
// on an empty buffer; all that goes before the bearer is bounded by
// headerBound), so the placeholder is never split. If it were, the daemon would
// answer 401 to the placeholder.
type bearerConn struct {
	net.Conn
	placeholder []byte
	bearer      *secret.Secret
}

func (c *bearerConn) Write(b []byte) (int, error) {
	at := bytes.Index(b, c.placeholder)
	if at < 0 {
		return c.Conn.Write(b)
	}
	if c.stale() {
		return 0, errStale
	}
	out := make([]byte, len(b))
	defer clear(out)
	copy(out, b)
	if err := c.bearer.Use(func(s []byte) error { copy(out[at:], s); return nil }); err != nil {
		return 0, err
	}
	return c.Conn.Write(out)
}

// errStale is returned before anything was written, which net/http takes as
// leave to send the request on a new connection.
var errStale = errors.New("the daemon has closed this connection")

// stale says whether the daemon has ended an idle connection. net/http notices
// by itself, a moment later; a request in that moment would look lost although
// nobody has seen it.
func (c *bearerConn) stale() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		ended = err == nil && n == 0 || errors.Is(err, unix.ECONNRESET)
	})
	return ended
}

// headerBound is the most that a header value taken from a message may have.
const headerBound = 1024

func (d *daemon) request(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	req.Header.Set("Authorization", "Bearer "+d.placeholder)
	return d.http.Do(req)
}

func (d *daemon) close() { d.http.CloseIdleConnections() }
