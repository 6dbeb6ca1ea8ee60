package ownercli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Attacher connects this terminal to a launch's terminal relay and returns when
// the viewer detached or the agent ended; over says which. It does not zero the
// token.
type Attacher func(ctx context.Context, a *App, launch, socket string, token *secret.Secret) (over bool, err error)

func newAgent(a *App) *cobra.Command {
	return noun("agent", "Agents: start them, watch them, stop them",
		newAgentCatalog(a), newAgentStart(a), newAgentAttach(a), newAgentStop(a), newAgentList(a), newAgentShow(a), newAgentLogs(a))
}

type agentCatalog struct {
	app       *App
	workspace string
	all       bool
}

func newAgentCatalog(a *App) *cobra.Command {
	o := &agentCatalog{app: a}
	c := &cobra.Command{
		Use: "catalog", Short: "List what can be started in this workspace; * is the default", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().StringVar(&o.workspace, "workspace", "", "another workspace, by id or name")
	c.Flags().BoolVar(&o.all, "all", false, "of every workspace")
	complete(c, "workspace", a.workspaceIDs)
	return c
}

// catalogEntry is one workspace in the catalog's JSON.
type catalogEntry struct {
	Workspace messages.Workspace       `json:"workspace"`
	Profiles  []messages.LaunchProfile `json:"profiles"`
}

func (o *agentCatalog) run(ctx context.Context) error {
	var chosen []messages.Workspace
	if o.all {
		page, err := o.app.workspaces(ctx)
		if err != nil {
			return err
		}
		chosen = page.Items
	} else {
		ws, err := o.app.workspace(ctx, o.workspace)
		if err != nil {
			return err
		}
		chosen = append(chosen, ws)
	}
	catalog := ownerapi.Page[catalogEntry]{Items: []catalogEntry{}}
	for _, ws := range chosen {
		page, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.LaunchProfile], error) {
			return c.Profiles(ctx, ws.ID)
		})
		if err != nil {
			return err
		}
		catalog.Items = append(catalog.Items, catalogEntry{ws, page.Items})
	}
	catalog.Total = len(catalog.Items)
	return o.app.print(catalog, func(w io.Writer) {
		if len(catalog.Items) == 0 && o.app.OutTTY {
			fmt.Fprintln(w, "No workspaces yet. Register a checkout with: sophia workspace add")
		}
		for _, e := range catalog.Items {
			fmt.Fprintf(w, "%s (%s)\n", oneLine(e.Workspace.Name), oneLine(e.Workspace.ID))
			for _, p := range e.Profiles {
				mark := " "
				if p.Default {
					mark = "*"
				}
				fmt.Fprintf(w, "%s %s [%s] %s/%s lease %ds\n", mark, oneLine(p.Name), oneLine(p.Harness), p.Permission, p.Surface, p.LeaseSeconds)
			}
		}
	})
}

type agentAttach struct{ app *App }

func newAgentAttach(a *App) *cobra.Command {
	o := &agentAttach{app: a}
	return &cobra.Command{
		Use: "attach LAUNCH", Short: "Attach this terminal to an agent, once per launch", Args: exactly("launch"),
		Long: `attach shows the agent's terminal and sends it what you type. There is one
attach token per launch: after it was used, also by agent start, attaching is
not possible again. Detach with Ctrl-\ d; the agent keeps running.`,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeLaunches(false),
	}
}

func (o *agentAttach) run(ctx context.Context, launch string) error {
	if !o.app.InTTY || !o.app.OutTTY {
		return problem.New("usage", "attaching needs a terminal").WithHint("Run it in one; the token was not used.")
	}
	return o.app.attach(ctx, launch)
}

// attach takes the launch's one token and hands the terminal over.
func (a *App) attach(ctx context.Context, launch string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	socket, token, err := c.Attach(ctx, launch)
	if err != nil {
		return err
	}
	defer token.Zero()
	over, err := a.reach(ctx, c, launch, socket, token)
	if err != nil {
		return err
	}
	if over {
		fmt.Fprintf(a.Err, "%s has ended.\n", launch)
	} else {
		fmt.Fprintf(a.Err, "Detached. %s keeps running; stop it with: sophia agent stop %s\n", launch, launch)
	}
	return nil
}

// terminalWait is how long the terminal may take to be there: the host first
// verifies everything again, hundreds of megabytes of it.
const terminalWait = 30 * time.Second

// reach attaches, and tries again while the terminal is not there yet: that
// costs no token. A launch that has ended will have none any more.
func (a *App) reach(ctx context.Context, c *ownerapi.Client, launch, socket string, token *secret.Secret) (over bool, err error) {
	giveUp := time.After(terminalWait)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		over, err = a.Attach(ctx, a, launch, socket, token)
		if problem.CodeOf(err) != "terminal_unreachable" {
			return over, err
		}
		if lease, gone := c.Launch(ctx, launch); gone != nil || final(lease.State) {
			return over, err
		}
		select {
		case <-time.After(pause):
		case <-giveUp:
			return over, err
		case <-ctx.Done():
			return over, err
		}
	}
}

type agentStop struct {
	app    *App
	noWait bool
}

func newAgentStop(a *App) *cobra.Command {
	o := &agentStop{app: a}
	c := &cobra.Command{
		Use: "stop LAUNCH", Short: "Stop an agent and see that nothing of it is left", Args: exactly("launch"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeLaunches(false),
	}
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "don't wait for the end")
	return c
}

// stopWait is how long stop waits: systemd's ten seconds, the proof that all
// is quiet, the evidence.
const stopWait = 60 * time.Second

func (o *agentStop) run(ctx context.Context, launch string) error {
	c, err := o.app.Client()
	if err != nil {
		return err
	}
	lease, err := c.StopLaunch(ctx, launch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	for !o.noWait && !final(lease.State) && lease.State != messages.LeaseUnquiet {
		if lease, err = c.WaitLaunch(ctx, launch, lease.State); err != nil {
			return err
		}
	}
	if lease.State == messages.LeaseUnquiet {
		return problem.New("refused", "%s is stopped, but something of it is alive: %s", launch, survivors(lease)).
			WithHint("Its folder stays until all is quiet: sophia agent show %s", launch)
	}
	return o.app.print(lease, func(w io.Writer) { fmt.Fprintf(w, "%s is %s.\n", launch, lease.State) })
}

// final says that a launch will not change any more.
func final(s messages.LeaseState) bool {
	switch s {
	case messages.LeaseEnded, messages.LeaseRefused, messages.LeaseDenied, messages.LeaseExpired, messages.LeaseFailed:
		return true
	}
	return false
}

type agentList struct {
	app *App
	all bool
}

func newAgentList(a *App) *cobra.Command {
	o := &agentList{app: a}
	c := &cobra.Command{
		Use: "list", Short: "List launches", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "ended ones too")
	return c
}

func (a *App) launches(ctx context.Context) (ownerapi.Page[messages.Lease], error) {
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.Lease], error) {
		return c.Launches(ctx)
	})
}

// completeLaunches offers launches, with ended the ended ones too.
func (a *App) completeLaunches(ended bool) cobra.CompletionFunc {
	return completeIDs(a, func(ctx context.Context) ([]string, error) {
		return a.launchIDs(ctx, func(l messages.Lease) bool { return ended || !final(l.State) })
	})
}

// launchIDs are the launches that a completion offers.
func (a *App) launchIDs(ctx context.Context, offered func(messages.Lease) bool) (ids []string, err error) {
	page, err := a.launches(ctx)
	for _, l := range page.Items {
		if offered(l) {
			ids = append(ids, cobra.CompletionWithDesc(l.Launch, oneLine(fmt.Sprintf("%s (%s), %s", l.Plan.ProfileName, l.Plan.Seat, l.State))))
		}
	}
	return ids, err
}

func (o *agentList) run(ctx context.Context) error {
	page, err := o.app.launches(ctx)
	if err != nil {
		return err
	}
	kept := []messages.Lease{}
	for _, l := range page.Items {
		if o.all || !final(l.State) {
			kept = append(kept, l)
		}
	}
	hidden := len(page.Items) - len(kept)
	page.Items, page.Total = kept, len(kept)
	return o.app.print(page, func(w io.Writer) {
		now := o.app.now()
		var rows [][]string
		for _, l := range page.Items {
			rows = append(rows, []string{l.Launch, l.Plan.ProfileName, l.Plan.Seat, string(l.State), ago(l.Updated, now), l.Plan.WorkspaceDir.Path})
		}
		empty := "No agents yet. Start one with: sophia agent start"
		if hidden > 0 {
			empty = fmt.Sprintf("No agent is running; %d have ended, see: sophia agent list --all", hidden)
		}
		o.app.table(w, []string{"LAUNCH", "AGENT", "SEAT", "STATE", "SINCE", "WORKSPACE"}, rows, empty)
	})
}

type agentShow struct{ app *App }

func newAgentShow(a *App) *cobra.Command {
	o := &agentShow{app: a}
	return &cobra.Command{
		Use: "show LAUNCH", Short: "Show a launch: its plan, its states, its evidence", Args: exactly("launch"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeLaunches(true),
	}
}

func (o *agentShow) run(ctx context.Context, launch string) error {
	l, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (messages.Lease, error) { return c.Launch(ctx, launch) })
	if err != nil {
		return err
	}
	return o.app.print(l, func(w io.Writer) { o.show(w, l) })
}

func (o *agentShow) show(w io.Writer, l messages.Lease) {
	a, p := o.app, l.Plan
	expires := ""
	if l.Expires != nil && !final(l.State) {
		expires = a.at(*l.Expires)
	}
	a.fields(w, [][2]string{
		{"launch", l.Launch}, {"lease", l.ID}, {"state", fmt.Sprintf("%s, %s", l.State, a.at(l.Updated))}, {"why", strings.TrimSpace(l.Reason + " " + coded(l.Code))},
		{"resumes", p.Resumes}, {"alive", survivors(l)}, {"lease ends", expires},
		{"agent", fmt.Sprintf("%s (%s) [%s]", p.ProfileName, p.Seat, p.Harness)},
		{"harness", strings.TrimSpace(p.HarnessVersion + "  " + p.HarnessIdentity.Path)}, {"sha256", p.HarnessIdentity.SHA256},
		{"authority", fmt.Sprintf("%s/%s scope %s", p.Permission, p.Surface, scopeText(p.Scope))},
		{"writes", map[bool]string{true: "each waits for your approval"}[p.WriteApproval == messages.WriteApprovalAlways]},
		{"confined", p.Confine}, {"arguments", strings.Join(p.Arguments, " ")},
		{"workspace", p.WorkspaceDir.Path}, {"plan", l.PlanDigest}, {"unit", l.Unit.Name}, {"connection", l.Connection},
	})
	if e := l.Evidence; e != nil && len(e.After) > 0 {
		untouched := a.green("untouched")
		if !e.Untouched {
			untouched = a.red("changed: " + oneLine(strings.Join(e.Changed, ", ")))
		}
		fmt.Fprintf(w, "\n%s  %d config sources %s", a.dim("evidence"), len(e.Before), untouched)
		if e.Credential != "" {
			fmt.Fprintf(w, "; credential %s", oneLine(strings.ReplaceAll(e.Credential, "_", " ")))
		}
		fmt.Fprintln(w)
	}
	if len(l.History) == 0 {
		return
	}
	fmt.Fprintln(w)
	var rows [][]string
	for i, step := range l.History {
		after := ""
		if i > 0 {
			after = "+" + step.At.Sub(l.History[i-1].At).Round(time.Millisecond).String()
		}
		rows = append(rows, []string{step.At.Local().Format(time.DateTime + ".000"), after, string(step.State), step.Why})
	}
	a.table(w, []string{"AT", "AFTER", "STATE", "WHY"}, rows, "")
}

// survivors says what is alive of a launch that could not be proven quiet.
func survivors(l messages.Lease) string {
	if l.State != messages.LeaseUnquiet || len(l.History) == 0 {
		return ""
	}
	return l.History[len(l.History)-1].Why
}

// coded is a code as it stands behind a sentence.
func coded(code string) string {
	if code == "" {
		return ""
	}
	return "(" + code + ")"
}
