package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
)

// The real Claude Code with an expired login, by a managed launch: it renews the
// login at a token endpoint in its vendor's place, and when the launch has ended the
// owner's own file has the new one. The launch after it finds nothing to renew.
func TestAgents_ARenewedLoginComesHome(t *testing.T) {
	claude := harnesses.ClaudeCode(t)
	model := modelapi.Start(t, modelapi.Script{Final: "All done."})
	expired := harnesses.ExpiredClaude(t, model.URL)
	h := build(t, binaries(t))
	login := filepath.Join(h.Person, ".claude", ".credentials.json")
	h.write(login, expired.Credentials)
	h.write(filepath.Join(h.Person, ".claude.json"), fmt.Sprintf(`{"hasCompletedOnboarding":true,"projects":{%q:{"hasTrustDialogAccepted":true}}}`, h.dir))
	config := "[harness.claude-code.environment]\n"
	for name, value := range expired.Environment {
		config += fmt.Sprintf("%s = %q\n", name, value)
	}
	h.furnish("\n" + config)
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
	if redeemed := expired.Tokens.Redeemed(); fmt.Sprint(redeemed) != "[refresh-0]" {
		t.Errorf("redeemed %q", redeemed)
	}
}
