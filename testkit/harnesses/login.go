package harnesses

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"sophia/testkit/intercept"
)

// Tokens is a vendor's token endpoint, which knows one login: "refresh-0" is good
// once, for "refresh-1".
type Tokens struct {
	t        testing.TB
	answer   any
	mu       sync.Mutex
	redeemed []string
}

// NewTokens makes an endpoint that gives the answer.
func NewTokens(t testing.TB, answer any) *Tokens { return &Tokens{t: t, answer: answer} }

// ServeHTTP implements http.Handler.
func (e *Tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		e.t.Error(err)
	}
	e.mu.Lock()
	used := slices.Contains(e.redeemed, ask.Refresh)
	e.redeemed = append(e.redeemed, ask.Refresh)
	e.mu.Unlock()
	if used || ask.Refresh != "refresh-0" {
		http.Error(w, `{"error":{"code":"refresh_token_reused"}}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(e.answer); err != nil {
		e.t.Error(err)
	}
}

// Redeemed are the refresh tokens that came, in order.
func (e *Tokens) Redeemed() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.redeemed)
}

// ClaudeLogin is a login of Claude Code's that has expired. Claude Code takes tokens
// from its vendor's host alone, so a proxy answers for that, and sends all else to
// the model.
type ClaudeLogin struct {
	Tokens      *Tokens
	Credentials string            // the text of .credentials.json
	Environment map[string]string // how Claude Code is told of the proxy
}

// ExpiredClaude makes the login, its endpoint and the proxy, until the test ends.
func ExpiredClaude(t testing.TB, modelURL string) ClaudeLogin {
	t.Helper()
	model, err := url.Parse(modelURL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(model)
	tokens := NewTokens(t, map[string]any{"token_type": "Bearer", "access_token": "access-1", "refresh_token": "refresh-1", "expires_in": 3600, "scope": "user:inference user:profile"})
	proxy := intercept.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "platform.claude.com" && r.URL.Path == "/v1/oauth/token" {
			tokens.ServeHTTP(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	return ClaudeLogin{
		Tokens: tokens,
		Credentials: fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"access-0","refreshToken":"refresh-0","expiresAt":%d,"scopes":["user:inference","user:profile"],"subscriptionType":"pro"}}`,
			time.Now().Add(-time.Hour).UnixMilli()),
		Environment: map[string]string{"HTTPS_PROXY": proxy.URL, "NODE_EXTRA_CA_CERTS": proxy.CA, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
	}
}
