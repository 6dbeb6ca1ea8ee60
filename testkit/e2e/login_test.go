package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/testkit/harnesses"
	"sophia/testkit/intercept"
	"sophia/testkit/modelapi"
)

// The real Claude Code with an expired login, by a managed launch: it renews the
// login at a token endpoint in its vendor's place, and when the launch has ended the
// owner's own file has the new one. The launch after it finds nothing to renew.
func TestAgents_ARenewedLoginComesHome(t *testing.T) {
	claude := harnesses.ClaudeCode(t)
	model := modelapi.Start(t, modelapi.Script{Final: "All done."})
	at, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(at)
	var mu sync.Mutex
	var redeemed []string
	proxy := intercept.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/oauth/token" {
			forward.ServeHTTP(w, r)
			return
		}
		var ask struct {
			Refresh string `json:"refresh_token"`
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		redeemed = append(redeemed, ask.Refresh)
		if err := json.NewEncoder(w).Encode(map[string]any{"token_type": "Bearer", "access_token": "access-1", "refresh_token": "refresh-1",
			"expires_in": 3600, "scope": "user:inference user:profile"}); err != nil {
			t.Error(err)
		}
	}))
	h := build(t, binaries(t))
	login := filepath.Join(h.Person, ".claude", ".credentials.json")
	h.write(login, fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"access-0","refreshToken":"refresh-0","expiresAt":%d,"scopes":["user:inference","user:profile"],"subscriptionType":"pro"}}`,
		time.Now().Add(-time.Hour).UnixMilli()))
	h.write(filepath.Join(h.Person, ".claude.json"), fmt.Sprintf(`{"hasCompletedOnboarding":true,"projects":{%q:{"hasTrustDialogAccepted":true}}}`, h.dir))
	h.furnish(fmt.Sprintf(`
[harness.claude-code.environment]
HTTPS_PROXY = %q
NODE_EXTRA_CA_CERTS = %q
CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1"
`, proxy.URL, proxy.CA))
	h.adopt("claude-code", claude)
	for _, want := range []string{messages.CredentialWrittenBack, messages.CredentialUnchanged} {
		asked := len(model.Requests())
		l := h.proposeAs(ownerapi.StartRequest{Harness: "claude-code", Arguments: []string{"please orient"}})
		h.approve(l)
		h.until(l.Launch, messages.LeaseRunning)
		h.eventually("the model's last words are not on the terminal", func() bool { return strings.Contains(h.terminal(l.Launch), "All done.") })
		h.stop(l.Launch)
		end := h.until(l.Launch, messages.LeaseEnded)
		if end.Evidence == nil || end.Evidence.Credential != want || len(model.Requests()) == asked {
			t.Errorf("the evidence: %+v, want the credential %s", end.Evidence, want)
		}
		h.nothingOf(l.Launch)
		if b, err := os.ReadFile(login); err != nil || !strings.Contains(string(b), "refresh-1") || strings.Contains(string(b), "refresh-0") {
			t.Errorf("the owner's file: %s, %v", b, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(redeemed) != "[refresh-0]" {
		t.Errorf("redeemed %q", redeemed)
	}
}
