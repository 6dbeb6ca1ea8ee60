package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
	"sophia/testkit/usermanager"
)

// world is all that the demo runs in. Nothing of it is the owner's.
type world struct {
	say      io.Writer
	checkout string
	bin      string // folder of the programs
	home     string // SOPHIA_HOME, and HOME below it
	manager  *usermanager.Manager
	model    *modelapi.Server
	codex    string
	env      []string

	workspace string
	mcp       string
	tray      *tray
}

// prompt is what the agent is started with.
const prompt = "Find out where you are with sophia.orient."

func newWorld(ctx context.Context, say io.Writer) (_ *world, err error) {
	w := &world{say: say}
	defer func() {
		if err != nil {
			_ = w.close(false) // what failed first is what is told
		}
	}()
	if w.checkout, err = filepath.Abs(os.Getenv("SOPHIA_CHECKOUT")); err != nil {
		return nil, err
	}
	w.bin = filepath.Join(w.checkout, "bin")
	if _, err := os.Stat(filepath.Join(w.bin, "sophia")); err != nil {
		return nil, fmt.Errorf("no programs in %s; run ./justw demo", w.bin)
	}
	// Codex refuses a configuration home below a temp folder, and unix sockets
	// need a short path.
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	if w.home, err = os.MkdirTemp(cache, "sophia-demo-"); err != nil {
		return nil, err
	}
	w.step("Installing what it launches: Codex %s", harnesses.CodexVersion)
	if w.codex, err = harnesses.InstallCodex(); err != nil {
		return nil, err
	}
	person := filepath.Join(w.home, "person") // the home of the demo's owner
	if err := os.MkdirAll(filepath.Join(person, ".codex"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(person, ".codex", "auth.json"), []byte(`{"OPENAI_API_KEY":"sk-not-a-real-key"}`), 0o600); err != nil {
		return nil, err
	}
	if w.model, err = modelapi.Run(ctx, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient", Arguments: `{"goal":"` + prompt + `"}`}}, Final: "I know where I am."}); err != nil {
		return nil, err
	}
	if err := w.configure(); err != nil {
		return nil, err
	}
	w.step("Starting a private systemd user manager")
	if err := os.Setenv("HOME", person); err != nil { // the manager and the daemon are this person's
		return nil, err
	}
	if w.manager, err = usermanager.Run(ctx, filepath.Join(w.home, "m")); err != nil {
		return nil, err
	}
	w.env = append(w.manager.Env(), "SOPHIA_HOME="+w.home+"/s", "HOME="+person, "TERM=xterm-256color", "NO_COLOR=1")
	return w, nil
}

func (w *world) step(format string, args ...any) { fmt.Fprintf(w.say, "\n» "+format+"\n", args...) }

// configure points Codex at the loopback model, as an owner with a model
// provider of their own would.
func (w *world) configure() error {
	dir := filepath.Join(w.home, "s", "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(w.home, "s"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.toml"), []byte(`listen = "127.0.0.1:0"

[harness.codex.config]
model = "mock-model"
model_provider = "mock"

[harness.codex.config.model_providers.mock]
name = "mock"
base_url = "`+w.model.URL+`/v1"
wire_api = "responses"
supports_websockets = false
`), 0o600)
}

// command is one of Sophia's programs as the demo's owner runs it.
func (w *world) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(w.bin, program), args...)
	c.Env, c.Dir = w.env, w.checkout
	return c
}

// sophia runs the CLI with --json, shows the command and decodes the answer.
func (w *world) sophia(ctx context.Context, into any, args ...string) error {
	fmt.Fprintf(w.say, "$ sophia %s\n", strings.Join(args, " "))
	return w.quietly(ctx, into, args...)
}

func (w *world) quietly(ctx context.Context, into any, args ...string) error {
	var out, errs bytes.Buffer
	c := w.command(ctx, "sophia", append(args, "--json")...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("sophia %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out.Bytes(), into)
}

// up starts the daemon and imports this checkout.
func (w *world) up(ctx context.Context, s *summary) error {
	w.step("Starting the daemon as a service, and reading this checkout")
	var r struct {
		Status struct {
			MCP  string `json:"mcp"`
			Unit string `json:"unit"`
		} `json:"status"`
		Workspace struct {
			ID        string `json:"id"`
			Documents int    `json:"documents"`
			Symbols   int    `json:"symbols"`
		} `json:"workspace"`
	}
	if err := w.sophia(ctx, &r, "up", "--workspace", w.checkout); err != nil {
		return err
	}
	if r.Status.Unit == "" {
		return fmt.Errorf("the daemon does not run as a unit")
	}
	w.workspace, w.mcp = r.Workspace.ID, r.Status.MCP
	s.Documents, s.Symbols = r.Workspace.Documents, r.Workspace.Symbols
	fmt.Fprintf(w.say, "%s serves %s; %d documents and %d symbols read\n", r.Status.Unit, w.mcp, s.Documents, s.Symbols)
	var err error
	w.tray, err = w.startTray(ctx)
	return err
}

// close ends everything, last first.
func (w *world) close(keep bool) error {
	if w.tray != nil {
		w.tray.close()
	}
	var err error
	if w.manager != nil {
		err = w.manager.Stop()
	}
	if w.model != nil {
		w.model.Close()
	}
	if w.home != "" && !keep {
		if rm := removeAll(w.home); err == nil {
			err = rm
		}
	}
	return err
}

// removeAll removes a folder with read-only ones in it, as adopted harnesses are.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
