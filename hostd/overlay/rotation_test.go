package overlay_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sophia/hostd/custody"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/overlay"
	"sophia/messages"
	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
)

// jwt is unsigned: nobody on loopback checks it.
func jwt(claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + enc(body) + "." + enc([]byte("sig"))
}

func login(refresh string, expires time.Time) map[string]any {
	claims := map[string]any{"exp": expires.Unix(), "email": "o@example.org", "https://api.openai.com/auth": map[string]any{"chatgpt_account_id": "acc", "chatgpt_plan_type": "pro"}}
	return map[string]any{"id_token": jwt(claims), "access_token": jwt(claims), "refresh_token": refresh, "account_id": "acc"}
}

// The real Codex with an expired login redeems the refresh token at a token
// endpoint on loopback, keeps the new one in its overlay, and the keeper brings
// it to the real file, once. Then the overlay may go.
func TestOverlay_RealCodexRenewsItsLoginAndTheOwnerKeepsIt(t *testing.T) {
	dir := harnesses.Scratch(t)
	api := modelapi.Start(t, modelapi.Script{Final: "All done."})
	var mu sync.Mutex
	var redeemed []string
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Refresh string `json:"refresh_token"`
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		mu.Lock()
		redeemed = append(redeemed, req.Refresh)
		mu.Unlock()
		if req.Refresh != "refresh-0" {
			http.Error(w, `{"error":{"code":"refresh_token_reused"}}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(login("refresh-1", time.Now().Add(time.Hour))); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(tokens.Close)
	set, err := contracts.New(map[string]contracts.Settings{"codex": {
		Config: map[string]any{"model": "mock-model", "model_provider": "mock", "model_providers": map[string]any{
			"mock": map[string]any{"name": "mock", "base_url": api.URL + "/v1", "wire_api": "responses", "supports_websockets": false, "requires_openai_auth": true}}},
		Environment: map[string]string{"CODEX_REFRESH_TOKEN_URL_OVERRIDE": tokens.URL + "/oauth/token"}}})
	fatal(t, err)
	b := bench{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "proj"), launch: filepath.Join(dir, "lp-9c41d7"), builder: overlay.Builder{Contracts: set}}
	fatal(t, os.MkdirAll(b.project, 0o700))
	old, err := json.Marshal(map[string]any{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil, "tokens": login("refresh-0", time.Now().Add(-time.Hour)), "last_refresh": time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339)})
	fatal(t, err)
	b.put(t, ".codex/auth.json", string(old))
	keeper := custody.Keeper{Contracts: set, Kept: filepath.Join(dir, "kept"), Now: time.Now}
	real := filepath.Join(b.home, ".codex/auth.json")
	if expired, err := keeper.Expired(t.Context(), "codex", real); err != nil || !expired {
		t.Fatalf("expired: %v %v", expired, err)
	}
	r := b.request("codex")
	r.Plan.HarnessIdentity.Path = harnesses.Codex(t)
	r.Plan.Arguments = []string{"exec", "--skip-git-repo-check", "hello"}
	r.WrapperPath = stand(t, dir)
	r.Env = []string{"PATH=" + os.Getenv("PATH")}
	built := b.build(t, r)
	out := session(t, built, b.project)

	if got, _ := os.ReadFile(real); string(got) != string(old) {
		t.Fatal("Codex wrote into the real home")
	}
	for i, want := range []string{messages.CredentialWrittenBack, messages.CredentialUnchanged} {
		o, err := keeper.Settle(t.Context(), *built.Credential)
		if err != nil || o.Outcome != want {
			t.Fatalf("settled, time %d: %+v %v, redeemed %q\n%s", i+1, o, err, redeemed, out)
		}
	}
	got, err := os.ReadFile(real)
	fatal(t, err)
	if !strings.Contains(string(got), `refresh-1`) || strings.Contains(string(got), "refresh-0") {
		t.Errorf("the real file has %s", got)
	}
	if fmt.Sprint(redeemed) != "[refresh-0]" {
		t.Errorf("redeemed %q", redeemed)
	}
	if expired, err := keeper.Expired(t.Context(), "codex", real); err != nil || expired {
		t.Errorf("still expired: %v %v", expired, err)
	}
	fatal(t, overlay.Remove(b.launch))
}
