package overlay_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// renewal is a harness whose login has expired.
type renewal struct {
	harness, program, file, old string
	arguments                   []string
	settings                    contracts.Settings
	tokens                      *harnesses.Tokens
	api                         *modelapi.Server
}

func codexRenewal(t *testing.T) renewal {
	api := modelapi.Start(t, modelapi.Script{Final: "All done."})
	endpoint := harnesses.NewTokens(t, login("refresh-1", time.Now().Add(time.Hour)))
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	old, err := json.Marshal(map[string]any{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil, "tokens": login("refresh-0", time.Now().Add(-time.Hour)), "last_refresh": time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339)})
	fatal(t, err)
	return renewal{
		harness: "codex", program: harnesses.Codex(t), file: ".codex/auth.json", old: string(old),
		arguments: []string{"exec", "--skip-git-repo-check", "hello"},
		settings: contracts.Settings{
			Config: map[string]any{"model": "mock-model", "model_provider": "mock", "model_providers": map[string]any{
				"mock": map[string]any{"name": "mock", "base_url": api.URL + "/v1", "wire_api": "responses", "supports_websockets": false, "requires_openai_auth": true}}},
			Environment: map[string]string{"CODEX_REFRESH_TOKEN_URL_OVERRIDE": server.URL + "/oauth/token"}},
		tokens: endpoint, api: api,
	}
}

func claudeRenewal(t *testing.T) renewal {
	api := modelapi.Start(t, modelapi.Script{Final: "All done."})
	expired := harnesses.ExpiredClaude(t, api.URL)
	return renewal{
		harness: "claude-code", program: harnesses.ClaudeCode(t), file: ".claude/.credentials.json", old: expired.Credentials,
		arguments: []string{"-p", "hello"}, settings: contracts.Settings{Environment: expired.Environment}, tokens: expired.Tokens, api: api,
	}
}

// A real harness with an expired login redeems the refresh token at a token
// endpoint on loopback, keeps the new one in its overlay, and the keeper brings
// it to the real file, once. Then the overlay may go.
func TestOverlay_RealHarnessesRenewTheirLoginAndTheOwnerKeepsIt(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T) renewal{"codex": codexRenewal, "claude-code": claudeRenewal} {
		t.Run(name, func(t *testing.T) {
			c := prepare(t)
			dir := harnesses.Scratch(t)
			set, err := contracts.New(map[string]contracts.Settings{c.harness: c.settings})
			fatal(t, err)
			b := bench{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "proj"), launch: filepath.Join(dir, "lp-9c41d7"), builder: overlay.Builder{Contracts: set}}
			fatal(t, os.MkdirAll(b.project, 0o700))
			b.put(t, c.file, c.old)
			keeper := custody.Keeper{Contracts: set, Kept: filepath.Join(dir, "kept"), Now: time.Now}
			real := filepath.Join(b.home, c.file)
			if expired, err := keeper.Expired(t.Context(), c.harness, real); err != nil || !expired {
				t.Fatalf("expired: %v %v", expired, err)
			}
			r := b.request(c.harness)
			r.Plan.HarnessIdentity.Path = c.program
			r.Plan.Arguments = c.arguments
			r.WrapperPath = stand(t, dir)
			r.Env = []string{"PATH=" + os.Getenv("PATH")}
			built := b.build(t, r)
			out := session(t, built, b.project)
			if !strings.Contains(out, "All done.") || len(c.api.Requests()) == 0 {
				t.Errorf("the renewed login did not reach the model:\n%s", out)
			}

			if got, err := os.ReadFile(real); err != nil || string(got) != c.old {
				t.Fatal("the harness wrote into the real home")
			}
			for i, want := range []string{messages.CredentialWrittenBack, messages.CredentialUnchanged} {
				o, err := keeper.Settle(t.Context(), *built.Credential)
				if err != nil || o.Outcome != want {
					t.Fatalf("settled, time %d: %+v %v, redeemed %q\n%s", i+1, o, err, c.tokens.Redeemed(), out)
				}
			}
			got, err := os.ReadFile(real)
			fatal(t, err)
			if !strings.Contains(string(got), `refresh-1`) || strings.Contains(string(got), "refresh-0") {
				t.Errorf("the real file has %s", got)
			}
			if fmt.Sprint(c.tokens.Redeemed()) != "[refresh-0]" {
				t.Errorf("redeemed %q", c.tokens.Redeemed())
			}
			if expired, err := keeper.Expired(t.Context(), c.harness, real); err != nil || expired {
				t.Errorf("still expired: %v %v", expired, err)
			}
			fatal(t, overlay.Remove(b.launch))
		})
	}
}
