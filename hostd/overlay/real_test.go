package overlay_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/hostd/evidence"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/overlay"
	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
	"sophia/testkit/programs"
)

// stand puts the MCP server that stands in the wrapper's place into dir, where
// it leaves its notes.
func stand(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(programs.Package(t, "sophia/hostd/overlay/testdata/mcpserver"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "wrapper")
	if err := os.WriteFile(out, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return out
}

// session runs a real harness by what Build says, nothing else, to its end.
func session(t *testing.T, built overlay.Built, dir string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.Argv[0], built.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, contracts.Environ(built.Env), 5*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", built.Argv, err, out)
	}
	return string(out)
}

// The real programs, in a home and a project full of what they might pick up:
// nothing of it is executed, nothing reaches the model, the only MCP server is
// the wrapper, the real sources are untouched and nothing is left outside the
// overlay.
func TestOverlay_RealHarnessesPickUpNothing(t *testing.T) {
	for name, c := range map[string]struct {
		program    func(testing.TB) string
		credential [2]string
		settings   func(url string) contracts.Settings
		arguments  []string
	}{
		"codex": {harnesses.Codex, [2]string{".codex/auth.json", `{"OPENAI_API_KEY":"sk-fake-for-tests"}`}, func(url string) contracts.Settings {
			return contracts.Settings{Config: map[string]any{"model": "mock-model", "model_provider": "mock", "model_providers": map[string]any{
				"mock": map[string]any{"name": "mock", "base_url": url + "/v1", "wire_api": "responses", "supports_websockets": false}}}}
		}, []string{"--strict-config", "exec", "--skip-git-repo-check", "please orient"}},
		"claude-code": {harnesses.ClaudeCode, [2]string{".claude/.credentials.json", `{}`}, func(url string) contracts.Settings {
			return contracts.Settings{Environment: map[string]string{"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-fake-for-tests"}}
		}, []string{"-p", "please orient"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := harnesses.Scratch(t)
			polluted := harnesses.Pollute(t, dir)
			fatal(t, os.WriteFile(filepath.Join(polluted.Home, c.credential[0]), []byte(c.credential[1]), 0o600))
			api := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "All done."})
			set, err := contracts.New(map[string]contracts.Settings{name: c.settings(api.URL)})
			fatal(t, err)
			b := bench{home: polluted.Home, project: polluted.Project, launch: filepath.Join(dir, "lp-9c41d7"), builder: overlay.Builder{Contracts: set}}
			r := b.request(name)
			r.Plan.HarnessIdentity.Path = c.program(t)
			r.Plan.Arguments = c.arguments
			r.WrapperPath = stand(t, dir)
			r.Env = os.Environ()
			built := b.build(t, r)
			sources, err := b.builder.Sources(name, b.home, r.Env)
			fatal(t, err)
			before, err := evidence.Take(t.Context(), sources)
			fatal(t, err)
			homeBefore, err := evidence.Take(t.Context(), []string{polluted.Home})
			fatal(t, err)

			out := session(t, built, polluted.Project)

			if !strings.Contains(out, "All done.") {
				t.Errorf("the session did not end as scripted:\n%s", out)
			}
			var bodies [][]byte
			for _, q := range api.Requests() {
				bodies = append(bodies, q.Body)
			}
			polluted.Check(t, bodies...)
			outputs := api.ToolOutputs()
			if len(outputs) != 1 || !strings.Contains(outputs[0].Text, "oriented-by-the-only-server") {
				t.Errorf("tool outputs %+v\n%s", outputs, out)
			}
			started, err := os.ReadFile(r.WrapperPath + ".started")
			fatal(t, err)
			if want := `["--launch","lp-9c41d7","--socket","` + r.EnvelopeSocket + `"]`; !strings.HasPrefix(string(started), want) {
				t.Errorf("the wrapper was started with %s", started)
			}
			e, err := evidence.Complete(t.Context(), before)
			if err != nil || !e.Untouched {
				t.Errorf("evidence: %v %v", err, e.Changed)
			}
			// Not even history or caches outside the overlay.
			if _, err := evidence.Complete(t.Context(), homeBefore); err != nil {
				t.Errorf("the real home changed: %v", err)
			}
			fatal(t, overlay.Remove(b.launch))
		})
	}
}

// The control for the test above: without the isolation the same pollution
// does show, so that its silence means something.
func TestOverlay_PollutionShowsWhenNothingIsIsolated(t *testing.T) {
	dir := harnesses.Scratch(t)
	polluted := harnesses.Pollute(t, dir)
	api := modelapi.Start(t, modelapi.Script{Final: "All done."})
	for name, run := range map[string]struct {
		argv []string
		env  map[string]string
	}{
		"codex": {[]string{harnesses.Codex(t), "exec", "--skip-git-repo-check", "-c", `model_provider="mock"`, "-c", "model_providers.mock={name=\"mock\",base_url=\"" + api.URL + "/v1\",wire_api=\"responses\",supports_websockets=false}", "hi"},
			map[string]string{"CODEX_HOME": polluted.Home + "/.codex"}},
		"claude-code": {[]string{harnesses.ClaudeCode(t), "-p", "hi"},
			map[string]string{"ANTHROPIC_BASE_URL": api.URL, "ANTHROPIC_API_KEY": "sk-fake-for-tests"}},
	} {
		run.env["HOME"], run.env["PATH"] = polluted.Home, os.Getenv("PATH")
		session(t, overlay.Built{Argv: run.argv, Env: run.env}, polluted.Project)
		marks, err := os.ReadDir(polluted.Marks)
		fatal(t, err)
		var read []string
		for _, q := range api.Requests() {
			if strings.Contains(string(q.Body), "marker-") {
				read = append(read, q.Path)
			}
		}
		if len(marks) == 0 || len(read) == 0 {
			t.Errorf("%s picked up nothing by itself: marks %v, requests %v", name, marks, read)
		}
		for _, m := range marks {
			fatal(t, os.Remove(polluted.Marks+"/"+m.Name()))
		}
	}
}
