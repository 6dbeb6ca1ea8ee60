package intercept

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Proxy is a running proxy.
type Proxy struct {
	URL string // for HTTPS_PROXY
	CA  string // PEM file of the authority
}

// Start runs a proxy that ends with the test. handler gets every request, with
// Request.Host as the client had it.
func Start(t testing.TB, handler http.Handler) Proxy {
	t.Helper()
	authority, key, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	inside := &http.Server{Handler: handler}
	tunnels := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = inside.Serve(tunnels) // until it is closed
	}()
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return certify(hello.ServerName, authority, key)
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			handler.ServeHTTP(w, r)
			return
		}
		conn, rest, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("intercept: %v", err)
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			conn.Close()
			return
		}
		tunnels.offer(tls.Server(ahead{conn, rest.Reader}, config))
	}))
	t.Cleanup(func() {
		front.Close()
		tunnels.Close()
		inside.Close()
		<-served
	})
	return Proxy{URL: front.URL, CA: ca}
}

func newAuthority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "A test's authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	c, err = x509.ParseCertificate(der)
	return c, key, err
}

// certify makes a certificate for a host. The authority's key serves for it too.
func certify(host string, authority *x509.Certificate, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// ahead is a connection of which something was read already.
type ahead struct {
	net.Conn
	r *bufio.Reader
}

func (a ahead) Read(p []byte) (int, error) { return a.r.Read(p) }

// listener hands tunnels to an HTTP server.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) offer(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		c.Close()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
