package ownercli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
)

type agentStart struct {
	app       *App
	workspace string
	ask       ownerapi.StartRequest
	lease     time.Duration
	noAttach  bool
}

func newAgentStart(a *App) *cobra.Command {
	o := &agentStart{app: a}
	c := &cobra.Command{
		Use: "start [-- HARNESS ARGUMENTS…]", Short: "Launch an agent; you approve it in the tray",
		Long: `start proposes a launch, waits for your answer in the tray, and attaches this
terminal. Every flag becomes part of the proposal that you approve. What is not
given comes from the launch profile, see: sophia agent catalog.

With --resume it comes from the plan of a launch that has ended, in that one's
workspace. A resume is a launch: everything is checked and approved anew.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 0 && len(args) > 0 {
				return usage("arguments for the harness come after --")
			}
			o.ask.Arguments = args
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.workspace, "workspace", "", "where, by id or name; the one of the working directory when not given")
	f.StringVar(&o.ask.Resume, "resume", "", "an ended launch to go on from")
	f.StringVar(&o.ask.Profile, "profile", "", "launch profile")
	f.StringVar(&o.ask.Harness, "harness", "", "codex, claude-code")
	f.StringVar(&o.ask.Seat, "seat", "", "name of the agent's seat, as Reviewer_1")
	f.StringVar((*string)(&o.ask.Permission), "permission", "", "observer, assistant, full")
	f.StringVar((*string)(&o.ask.Surface), "tool-surface", "", "core, full, code")
	f.StringSliceVar(&o.ask.Scope, "scope", nil, "entities it sees, comma-separated; * is all")
	f.DurationVar(&o.lease, "lease", 0, "how long it may run, as 1h")
	f.StringVar(&o.ask.WriteApproval, "write-approval", "", "profile (as the permission says), always")
	f.StringVar(&o.ask.Confine, "confine", "", "standard, strict")
	f.BoolVar(&o.ask.Isolated, "isolated", false, "a private HOME, and no instructions of the project")
	f.BoolVar(&o.noAttach, "no-attach", false, "don't attach this terminal")
	complete(c, "workspace", a.workspaceIDs)
	complete(c, "resume", func(ctx context.Context) ([]string, error) {
		return a.launchIDs(ctx, func(l messages.Lease) bool { return final(l.State) && l.Unit.Name != "" })
	})
	complete(c, "profile", func(ctx context.Context) ([]string, error) { return a.profiles(ctx, o.workspace) })
	complete(c, "harness", a.harnessIDs)
	choices(c, "permission", string(messages.Observer), string(messages.Assistant), string(messages.Full))
	choices(c, "tool-surface", string(messages.SurfaceCore), string(messages.SurfaceFull), string(messages.SurfaceCode))
	choices(c, "write-approval", "profile", messages.WriteApprovalAlways)
	choices(c, "confine", "standard", "strict")
	return c
}

func (o *agentStart) run(ctx context.Context) error {
	a := o.app
	attach := !o.noAttach && !a.JSON
	if attach && (!a.InTTY || !a.OutTTY) {
		return problem.New("usage", "attaching needs a terminal").WithHint("Run it in one, or add --no-attach.")
	}
	workspace, err := o.where(ctx)
	if err != nil {
		return err
	}
	o.ask.LeaseSeconds = int(o.lease / time.Second)
	if attach {
		o.ask.Cols, o.ask.Rows = a.size()
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	lease, err := c.Propose(ctx, workspace, o.ask)
	if err != nil {
		return err
	}
	if !final(lease.State) {
		a.say("Launch %s is %s.\nApprove or deny %s (%s) in the Sophia tray.\n",
			lease.Launch, messages.LeasePending, oneLine(lease.Plan.ProfileName), oneLine(lease.Plan.Seat))
		if s, err := c.Status(ctx); err == nil {
			a.tellNoTray(s)
		}
	}
	for lease.State == messages.LeaseProposed || lease.State == messages.LeasePending {
		if lease, err = c.WaitLaunch(ctx, lease.Launch, lease.State); err != nil {
			return err
		}
	}
	if err := refusal(lease); err != nil {
		return err
	}
	if attach {
		a.say("Approved. Attaching this terminal to the managed agent…\n")
	} else {
		a.say("Approved. Starting the managed agent…\n")
	}
	if lease, err = o.started(ctx, c, lease); err != nil {
		return err
	}
	if a.JSON {
		return writeIndented(a.Out, lease)
	}
	if !attach {
		a.say("%s runs as %s.\n", lease.Launch, oneLine(lease.Unit.Name))
		return nil
	}
	// A launch that failed quickly can still be attached to: its output is kept
	// for a while, and says more than its state.
	if err := a.attach(ctx, lease.Launch); err != nil {
		if now, gone := c.Launch(ctx, lease.Launch); gone == nil && refusal(now) != nil {
			return errors.Join(refusal(now), err)
		}
		return err
	}
	return nil
}

// where is the workspace's id: the named one, that of the launch to resume, or
// that of the working directory.
func (o *agentStart) where(ctx context.Context) (string, error) {
	if o.ask.Resume == "" || o.workspace != "" {
		ws, err := o.app.workspace(ctx, o.workspace)
		return ws.ID, err
	}
	l, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (messages.Lease, error) {
		return c.Launch(ctx, o.ask.Resume)
	})
	return l.Plan.Workspace, err
}

// started waits until the unit runs, or why it does not.
func (o *agentStart) started(ctx context.Context, c *ownerapi.Client, lease messages.Lease) (messages.Lease, error) {
	for {
		switch lease.State {
		case messages.LeaseApproved, messages.LeaseVerifying, messages.LeaseStarting:
		case messages.LeaseRedeeming:
			if !o.noAttach && !o.app.JSON {
				return lease, nil // the terminal is there; watch it come up
			}
		default:
			return lease, refusal(lease)
		}
		var err error
		if lease, err = c.WaitLaunch(ctx, lease.Launch, lease.State); err != nil {
			return lease, err
		}
	}
}

// refusal is why a launch came to nothing, nil while it lives.
func refusal(l messages.Lease) error {
	because := func(fallback string) string {
		if l.Reason != "" {
			return l.Reason
		}
		return fallback
	}
	switch l.State {
	case messages.LeaseDenied:
		return problem.New("denied", "%s was denied: %s", l.Launch, because("the owner said no"))
	case messages.LeaseExpired:
		return problem.New("approval_timed_out", "%s was not answered in time", l.Launch).
			WithHint("Start it again, and answer in the tray or with: sophia-tray --terminal")
	case messages.LeaseRefused, messages.LeaseFailed:
		code := l.Code
		if code == "" {
			code = string(l.State)
		}
		p := problem.New(code, "%s %s: %s", l.Launch, l.State, because("no reason was given")).
			WithHint("See: sophia agent show %s", l.Launch)
		if l.State == messages.LeaseRefused {
			return &ownerapi.ResponseError{Status: 422, Problem: p}
		}
		return p
	}
	return nil
}

// say is for people; with --json nothing but the answer is printed.
func (a *App) say(format string, args ...any) {
	if !a.JSON {
		fmt.Fprintf(a.Out, format, args...)
	}
}

// size is this terminal's, in columns and rows.
func (a *App) size() (cols, rows uint16) {
	f, ok := a.Out.(interface{ Fd() uintptr })
	if !ok {
		return 0, 0
	}
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 || h <= 0 || w > 1<<15 || h > 1<<15 {
		return 0, 0
	}
	return uint16(w), uint16(h)
}
