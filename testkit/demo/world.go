package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
	"sophia/testkit/world"
)

// demo is a world with the model that the agent talks to.
type demo struct {
	*world.World
	say   io.Writer
	model *modelapi.Server
	codex string // its native program
	mcp   string // URL of the endpoint
}

// prompt is what the agent is started with.
const prompt = "Find out where you are with sophia.orient."

func newDemo(ctx context.Context, say io.Writer) (_ *demo, err error) {
	checkout, err := filepath.Abs(os.Getenv("SOPHIA_CHECKOUT"))
	if err != nil {
		return nil, err
	}
	w, err := world.New(filepath.Join(checkout, "bin"), checkout, "sophia-demo-")
	if err != nil {
		return nil, fmt.Errorf("%w; run ./justw demo", err)
	}
	d := &demo{World: w, say: say}
	defer func() {
		if err != nil {
			_ = d.close(false) // what failed first is what is told
		}
	}()
	d.step("Installing what it launches: Codex %s", harnesses.CodexVersion)
	if d.codex, err = harnesses.InstallCodex(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(w.Person, ".codex"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(w.Person, ".codex", "auth.json"), []byte(`{"OPENAI_API_KEY":"sk-not-a-real-key"}`), 0o600); err != nil {
		return nil, err
	}
	if d.model, err = modelapi.Run(ctx, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient", Arguments: `{"goal":"` + prompt + `"}`}}, Final: "I know where I am."}); err != nil {
		return nil, err
	}
	if err := w.Configure(world.CodexAt(d.model.URL)); err != nil {
		return nil, err
	}
	d.step("Starting a private systemd user manager")
	return d, w.StartManager(ctx)
}

func (d *demo) step(format string, args ...any) { fmt.Fprintf(d.say, "\n» "+format+"\n", args...) }

// sophia runs the CLI with --json, shows the command and decodes the answer.
func (d *demo) sophia(ctx context.Context, into any, args ...string) error {
	fmt.Fprintf(d.say, "$ sophia %s\n", strings.Join(args, " "))
	return d.Sophia(ctx, into, args...)
}

// up starts the daemon and imports this checkout.
func (d *demo) up(ctx context.Context, s *summary) error {
	d.step("Starting the daemon as a service, and reading this checkout")
	fmt.Fprintf(d.say, "$ sophia up --workspace %s\n", d.Dir)
	r, err := d.Up(ctx, d.Dir)
	if err != nil {
		return err
	}
	if r.Status.Unit == "" {
		return fmt.Errorf("the daemon does not run as a unit")
	}
	d.mcp = r.Status.MCP
	s.Documents, s.Symbols = r.Workspace.Documents, r.Workspace.Symbols
	fmt.Fprintf(d.say, "%s serves %s; %d documents and %d symbols read\n", r.Status.Unit, d.mcp, s.Documents, s.Symbols)
	return d.StartTray(ctx)
}

// close ends everything, last first.
func (d *demo) close(keep bool) error {
	err := d.Close(keep)
	if d.model != nil {
		_ = d.model.Close() // it has no state
	}
	return err
}

// step bounds one thing that is waited for.
func step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 90*time.Second)
}
