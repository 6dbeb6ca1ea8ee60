package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sophia/messages"
	"sophia/testkit/world"
)

const seat = "Reviewer_1"

var launchLine = regexp.MustCompile(`Launch (lp-[0-9a-f]+) is pending_trusted_presence`)

func (d *demo) showLaunch(ctx context.Context, s *summary) error {
	ctx, cancel := step(ctx)
	defer cancel()
	d.step("The real Codex is adopted: its whole tree copied, pinned and witnessed")
	if err := d.sophia(ctx, nil, "harness", "adopt", "codex", "--path", d.codex); err != nil {
		return err
	}

	d.step("A managed launch, as a person starts one")
	args := []string{"agent", "start", "--harness", "codex", "--seat", seat, "--isolated", "--", prompt}
	fmt.Fprintf(d.say, "$ sophia %s\n", strings.Join(args, " "))
	terminal, err := world.OnScreen(d.Command(ctx, "sophia", args...))
	if err != nil {
		return err
	}
	if err := terminal.Until(ctx, func(text string) bool { return launchLine.MatchString(text) }); err != nil {
		return err
	}
	s.Launch = launchLine.FindStringSubmatch(terminal.Text())[1]
	fmt.Fprintf(d.say, "Launch %s is pending_trusted_presence.\n", s.Launch)
	if err := d.Tray.Approve(ctx, seat); err != nil {
		return err
	}
	s.Approvals++

	d.step("Codex on its terminal: it calls sophia.orient, and the result reaches its model")
	output, err := d.agentsTurn(ctx, terminal)
	if err != nil {
		return err
	}
	s.OrientBytes = len(output)
	s.ModelRequests = len(d.model.Requests())
	s.MCPServers = d.offered()
	s.TerminalBytes = terminal.Bytes()
	fmt.Fprintf(d.say, "%d bytes of orientation reached the model; the viewer saw %d bytes\n", s.OrientBytes, s.TerminalBytes)

	if err := d.detach(ctx, terminal, s); err != nil {
		return err
	}
	if err := terminal.Wait(); err != nil {
		return fmt.Errorf("sophia agent start: %w", err)
	}
	return d.stop(ctx, s)
}

// agentsTurn waits until the tool's result has reached the model and the model's
// last words the screen.
func (d *demo) agentsTurn(ctx context.Context, terminal *world.Screen) (string, error) {
	type answer struct {
		output string
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		output, err := d.model.WaitToolOutput(ctx)
		got <- answer{output.Text, err}
	}()
	if err := terminal.Until(ctx, func(text string) bool { return strings.Contains(text, "I know where I am.") }); err != nil {
		return "", err
	}
	a := <-got
	if a.err == nil && !strings.Contains(a.output, "_inbox_unread") {
		a.err = fmt.Errorf("what reached the model is no answer of Sophia's: %.200s", a.output)
	}
	return a.output, a.err
}

// offered are the MCP servers whose tools the model was offered.
func (d *demo) offered() (out []string) {
	for _, r := range d.model.Requests() {
		var body struct {
			Tools []struct {
				Type, Name string
			}
		}
		if json.Unmarshal(r.Body, &body) != nil {
			continue
		}
		for _, t := range body.Tools {
			if name, ok := strings.CutPrefix(t.Name, "mcp__"); ok && t.Type == "namespace" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// detach leaves the agent running, and tries to come back: the token was used.
func (d *demo) detach(ctx context.Context, terminal *world.Screen, s *summary) error {
	d.step("Detached with Ctrl-\\ d; the agent keeps running, and the token is used up")
	if err := terminal.Type("\x1cd"); err != nil {
		return err
	}
	second, err := world.OnScreen(d.Command(ctx, "sophia", "agent", "attach", s.Launch))
	if err != nil {
		return err
	}
	if err := second.Until(ctx, func(text string) bool { return strings.Contains(text, "token_consumed") }); err != nil {
		return err
	}
	s.SecondAttach = "token_consumed"
	fmt.Fprintf(d.say, "$ sophia agent attach %s\n%s\n", s.Launch, strings.TrimSpace(second.Text()))
	if second.Wait() == nil {
		return fmt.Errorf("a second attach succeeded")
	}
	return nil
}

// stop ends the agent and looks at what is left.
func (d *demo) stop(ctx context.Context, s *summary) error {
	d.step("Stopped by the owner; nothing may be left of it")
	if err := d.sophia(ctx, nil, "agent", "stop", s.Launch); err != nil {
		return err
	}
	var l messages.Lease
	if err := d.Sophia(ctx, &l, "agent", "show", s.Launch); err != nil {
		return err
	}
	if l.State != messages.LeaseEnded {
		return fmt.Errorf("the launch is %s (%s): %s", l.State, l.Code, l.Reason)
	}
	for _, step := range l.History {
		s.States = append(s.States, string(step.State))
	}
	s.Unit, s.HarnessVersion, s.HarnessSHA256 = l.Unit.Name, l.Plan.HarnessVersion, l.Plan.HarnessIdentity.SHA256
	if l.Evidence == nil || !l.Evidence.Untouched {
		return fmt.Errorf("the evidence is %+v", l.Evidence)
	}
	s.ConfigTouched, s.ConfigSources = len(l.Evidence.Changed), len(l.Evidence.After)
	_, gone := os.Stat(filepath.Join(d.Dirs().Launches(), s.Launch))
	s.OverlayGone = os.IsNotExist(gone)
	alive, err := world.ProcessesOf(s.Launch)
	if err != nil {
		return err
	}
	s.Survivors = len(alive)
	if !s.OverlayGone || s.Survivors > 0 {
		return fmt.Errorf("left: %d processes, overlay gone: %v", s.Survivors, s.OverlayGone)
	}
	return nil
}
