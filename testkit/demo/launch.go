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
)

const seat = "Reviewer_1"

var launchLine = regexp.MustCompile(`Launch (lp-[0-9a-f]+) is pending_trusted_presence`)

func (w *world) showLaunch(ctx context.Context, s *summary) error {
	ctx, cancel := step(ctx)
	defer cancel()
	w.step("The real Codex is adopted: its whole tree copied, pinned and witnessed")
	if err := w.sophia(ctx, nil, "harness", "adopt", "codex", "--path", w.codex); err != nil {
		return err
	}

	w.step("A managed launch, as a person starts one")
	args := []string{"agent", "start", "--harness", "codex", "--seat", seat, "--isolated", "--", prompt}
	fmt.Fprintf(w.say, "$ sophia %s\n", strings.Join(args, " "))
	start := w.command(ctx, "sophia", args...)
	terminal, err := startOnScreen(start)
	if err != nil {
		return err
	}
	defer terminal.close()
	if err := terminal.until(ctx, func(text string) bool { return launchLine.MatchString(text) }); err != nil {
		return err
	}
	s.Launch = launchLine.FindStringSubmatch(terminal.text.String())[1]
	fmt.Fprintf(w.say, "Launch %s is pending_trusted_presence.\n", s.Launch)
	if err := w.tray.approve(ctx, seat); err != nil {
		return err
	}
	s.Approvals++

	w.step("Codex on its terminal: it calls sophia.orient, and the result reaches its model")
	output, err := w.agentsTurn(ctx, terminal)
	if err != nil {
		return err
	}
	s.OrientBytes = len(output)
	s.ModelRequests = len(w.model.Requests())
	s.MCPServers = w.offered()
	s.TerminalBytes = terminal.raw
	fmt.Fprintf(w.say, "%d bytes of orientation reached the model; the viewer saw %d bytes\n", s.OrientBytes, s.TerminalBytes)

	if err := w.detach(ctx, terminal, s); err != nil {
		return err
	}
	if err := start.Wait(); err != nil {
		return fmt.Errorf("sophia agent start: %w", err)
	}
	return w.stop(ctx, s)
}

// agentsTurn waits until the tool's result has reached the model and the model's
// last words the screen.
func (w *world) agentsTurn(ctx context.Context, terminal *screen) (string, error) {
	type answer struct {
		output string
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		output, err := w.model.WaitToolOutput(ctx)
		got <- answer{output.Text, err}
	}()
	if err := terminal.until(ctx, func(text string) bool { return strings.Contains(text, "I know where I am.") }); err != nil {
		return "", err
	}
	a := <-got
	if a.err == nil && !strings.Contains(a.output, "_inbox_unread") {
		a.err = fmt.Errorf("what reached the model is no answer of Sophia's: %.200s", a.output)
	}
	return a.output, a.err
}

// offered are the MCP servers whose tools the model was offered.
func (w *world) offered() (out []string) {
	for _, r := range w.model.Requests() {
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
func (w *world) detach(ctx context.Context, terminal *screen, s *summary) error {
	w.step("Detached with Ctrl-\\ d; the agent keeps running, and the token is used up")
	if _, err := terminal.tty.WriteString("\x1cd"); err != nil {
		return err
	}
	again := w.command(ctx, "sophia", "agent", "attach", s.Launch)
	second, err := startOnScreen(again)
	if err != nil {
		return err
	}
	defer second.close()
	if err := second.until(ctx, func(text string) bool { return strings.Contains(text, "token_consumed") }); err != nil {
		return err
	}
	s.SecondAttach = "token_consumed"
	fmt.Fprintf(w.say, "$ sophia agent attach %s\n%s\n", s.Launch, strings.TrimSpace(second.text.String()))
	if again.Wait() == nil {
		return fmt.Errorf("a second attach succeeded")
	}
	return nil
}

// stop ends the agent and looks at what is left.
func (w *world) stop(ctx context.Context, s *summary) error {
	w.step("Stopped by the owner; nothing may be left of it")
	if err := w.sophia(ctx, nil, "agent", "stop", s.Launch); err != nil {
		return err
	}
	var l messages.Lease
	if err := w.quietly(ctx, &l, "agent", "show", s.Launch); err != nil {
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
	_, err := os.Stat(filepath.Join(w.home, "s", "run", "launches", s.Launch))
	s.OverlayGone = os.IsNotExist(err)
	if s.Survivors, err = processesOf(s.Launch); err != nil {
		return err
	}
	if !s.OverlayGone || s.Survivors > 0 {
		return fmt.Errorf("left: %d processes, overlay gone: %v", s.Survivors, s.OverlayGone)
	}
	return nil
}

// processesOf counts the processes that carry the launch's name in their
// environment or arguments.
func processesOf(launch string) (n int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if p == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		for _, f := range []string{"environ", "cmdline"} {
			if b, gone := os.ReadFile(filepath.Join(p, f)); gone == nil && strings.Contains(string(b), launch) {
				n++
				break
			}
		}
	}
	return n, err
}
