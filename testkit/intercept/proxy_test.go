package intercept_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"

	"sophia/testkit/intercept"
)

func TestProxy_AnswersForAnyHostToWhoTrustsItsAuthority(t *testing.T) {
	p := intercept.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.URL.Path) }))
	ca, err := os.ReadFile(p.CA)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(roots *x509.CertPool, what string) (string, error) {
		transport := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Get(what)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	trusting := x509.NewCertPool()
	trusting.AppendCertsFromPEM(ca)
	for _, host := range []string{"api.example.org", "tokens.example.com"} {
		if got, err := get(trusting, "https://"+host+"/v1/x"); err != nil || got != host+"/v1/x" {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	if got, err := get(x509.NewCertPool(), "https://api.example.org/"); err == nil {
		t.Errorf("to somebody else: %q", got)
	}
}
