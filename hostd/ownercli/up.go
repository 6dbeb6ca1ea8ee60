package ownercli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sophia/hostd/daemon"
	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	sdunit "sophia/hostd/unit"
	"sophia/messages/problem"
)

// Times of up and down.
const (
	pingWait  = 2 * time.Second
	readyWait = 60 * time.Second // a store that was cut off may have to be recovered first
	stopGrace = 60 * time.Second // the daemon ends its agents first, and bounds that
	killGrace = 5 * time.Second
)

type up struct {
	app        *App
	workspace  string
	foreground bool
}

func newUp(a *App) *cobra.Command {
	o := &up{app: a}
	c := &cobra.Command{
		Use: "up", Short: "Start the daemon, or see that it runs", Args: exactly(),
		Long: `up makes what is missing (folders, the owner's key), starts the daemon, as
sophia-daemon.service where a systemd user manager runs and in the foreground
where none does, registers a workspace, and says how to connect an agent. It may
be run again at any time.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().StringVar(&o.workspace, "workspace", "", "also register this checkout")
	c.Flags().BoolVar(&o.foreground, "foreground", false, "in the foreground, also where systemd runs")
	return c
}

// upResult is up's JSON.
type upResult struct {
	Status    ownerapi.Status          `json:"status"`
	Workspace *ownerapi.AddedWorkspace `json:"workspace,omitempty"`
	Connect   string                   `json:"connect"`
	Already   bool                     `json:"already_running"`
	Outdated  bool                     `json:"outdated"` // it runs another build of sophiad than the one here
}

func (o *up) run(ctx context.Context) error {
	a := o.app
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	if err := dirs.Make(); err != nil {
		return err
	}
	key, err := ownerkey.LoadOrCreate(dirs.OwnerKey())
	if err != nil {
		return err
	}
	key.Close()
	a.forget()

	status, err := a.ping(ctx)
	if err == nil {
		return o.ready(ctx, status, true)
	}
	if problem.CodeOf(err) != "daemon_unreachable" && problem.CodeOf(err) != "timed_out" {
		return err
	}
	program, err := a.program(daemon.Program)
	if err != nil {
		return err
	}
	service := a.service(program)
	defer service.Manager.Close()
	if o.foreground || service.Manager.Ping(ctx) != nil {
		return o.inForeground(ctx, program)
	}
	if home, ours, err := service.ForeignHome(ctx); err != nil {
		return err
	} else if !ours {
		return problem.New("another_home_runs", "%s runs already, for the home %q", sdunit.DaemonUnit, home).
			WithHint("Stop that one first, or add --foreground.")
	}
	if err := service.Start(ctx); err != nil {
		return err
	}
	status, err = a.untilReady(ctx, func() error {
		if running, err := service.Running(ctx); err == nil && !running {
			return problem.New("daemon_failed", "the daemon ended before it was ready").
				WithHint("Its log: %s, and: journalctl --user -u %s", dirs.Log(), sdunit.DaemonUnit)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return o.ready(ctx, status, false)
}

func (a *App) service(program string) *daemon.Service {
	return &daemon.Service{Manager: sdunit.New(a.Getenv), Getenv: a.Getenv, Program: program}
}

func (a *App) ping(ctx context.Context) (ownerapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	return call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Status, error) { return c.Status(ctx) })
}

// untilReady pings until the daemon answers, failed says why it never will, or
// time is up.
func (a *App) untilReady(ctx context.Context, failed func() error) (ownerapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(pause*2, 500*time.Millisecond) {
		status, err := a.ping(ctx)
		if err == nil {
			return status, nil
		}
		if code := problem.CodeOf(err); ctx.Err() == nil && code != "daemon_unreachable" && code != "timed_out" {
			return status, err
		}
		if err := failed(); err != nil {
			return status, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return status, problem.Wrap(ctx.Err(), "timed_out", "the daemon is not ready after %v", readyWait).
				WithHint("Look at its log, or start anew with: sophia down; sophia up")
		}
	}
}

// inForeground runs the daemon as a child until it ends or ctx does.
func (o *up) inForeground(ctx context.Context, program string) error {
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = o.app.Err, o.app.Err
	// Its own group: Ctrl-C reaches us alone, and we stop it in order. It ends in
	// order too when we are killed, which the kernel tells by the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}
	if err := cmd.Start(); err != nil {
		return problem.Wrap(err, "daemon_failed", "%s can't be started", program)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ended := func(err error) error {
		return problem.Wrap(err, "daemon_failed", "the daemon ended").WithHint("Its messages are above.")
	}
	var over error
	status, err := o.app.untilReady(ctx, func() error {
		select {
		case err := <-done:
			over = ended(err)
			return over
		default:
			return nil
		}
	})
	if over != nil {
		return over
	}
	if err == nil {
		err = o.ready(ctx, status, false)
	}
	if err == nil {
		o.app.say("The daemon runs in the foreground; Ctrl-C stops it.\n")
		select {
		case err := <-done:
			if err == nil { // sophia down
				return nil
			}
			return ended(err)
		case <-ctx.Done():
			o.app.say("Stopping the daemon and its agents. Ctrl-C again leaves them to it.\n")
		}
	}
	cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-done:
	case <-time.After(stopGrace):
		cmd.Process.Kill()
		<-done
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// ready registers the workspace and says what there is now.
func (o *up) ready(ctx context.Context, status ownerapi.Status, already bool) error {
	a := o.app
	result := upResult{Status: status, Already: already, Connect: a.command("connect codex")}
	result.Outdated = already && a.outdated(status.PID)
	if o.workspace != "" {
		added, err := a.addWorkspace(ctx, o.workspace, "")
		if err != nil {
			return err
		}
		result.Workspace = &added
	}
	return a.print(result, func(w io.Writer) {
		how := "in the foreground"
		if status.Unit != "" {
			how = "as " + status.Unit
		}
		verb := "runs"
		if already {
			verb = "runs already,"
		}
		fmt.Fprintf(w, "Sophia %s %s (pid %d).\n", verb, how, status.PID)
		if result.Outdated {
			fmt.Fprintf(w, "It was built anew since it started. To use that, which ends running agents:  %s && %s\n", a.command("down"), a.command("up"))
		}
		if result.Workspace != nil {
			fmt.Fprintln(w, addedText(*result.Workspace))
		}
		a.fields(w, [][2]string{{"Portal", status.Portal}, {"MCP", status.MCP}})
		fmt.Fprintf(w, "Connect an agent:  %s   (or claude-code, cursor, generic)\n", result.Connect)
	})
}

// outdated compares what the daemon runs with the program that would be started
// now. What can't be compared counts as the same.
func (a *App) outdated(pid int) bool {
	running, errRunning := fileDigest(fmt.Sprintf("/proc/%d/exe", pid))
	built, errBuilt := fileDigest(filepath.Join(a.Programs, daemon.Program))
	return errRunning == nil && errBuilt == nil && running != built
}

func fileDigest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// command is a sophia command line as it works in this shell.
func (a *App) command(rest string) string { return a.line("sophia", rest) }

// line is a command line of one of Sophia's programs, likewise.
func (a *App) line(program, rest string) string {
	self := filepath.Join(a.Programs, program)
	if found, err := exec.LookPath(program); err == nil {
		if same(found, self) {
			return program + " " + rest
		}
	}
	if relative, err := filepath.Rel(a.Dir, self); err == nil && !strings.HasPrefix(relative, "..") {
		self = relative
	}
	return self + " " + rest
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

type down struct{ app *App }

func newDown(a *App) *cobra.Command {
	o := &down{app: a}
	return &cobra.Command{
		Use: "down", Short: "Stop the daemon, and with it every agent it launched", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
}

// downResult is down's JSON.
type downResult struct {
	Was    string `json:"was"` // unit, process, nothing
	Killed bool   `json:"killed"`
}

func (o *down) run(ctx context.Context) error {
	a := o.app
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	result := downResult{Was: "nothing"}
	service := a.service("")
	defer service.Manager.Close()
	if service.Manager.Ping(ctx) == nil {
		running, err := service.Running(ctx)
		if err != nil {
			return err
		}
		if _, ours, err := service.ForeignHome(ctx); err != nil {
			return err
		} else if running && ours {
			stopping, cancel := context.WithTimeout(ctx, stopGrace+killGrace)
			defer cancel()
			if err := service.Stop(stopping); err != nil {
				return err
			}
			result.Was = "unit"
		}
	}
	if address, err := daemon.ReadAddress(dirs.Address()); err == nil {
		was, killed, err := stopProcess(address.PID)
		if err != nil {
			return err
		}
		if was {
			result.Was, result.Killed = "process", killed
		}
		// Dead, however it ended: its address must not mislead anybody.
		if err := os.Remove(dirs.Address()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return problem.Wrap(err, "address_not_removed", "%s can't be removed", dirs.Address())
		}
	}
	return a.print(result, func(w io.Writer) {
		switch {
		case result.Was == "nothing":
			fmt.Fprintln(w, "Sophia was not running.")
		case result.Killed:
			fmt.Fprintln(w, "Sophia did not stop by itself and was killed.")
		default:
			fmt.Fprintln(w, "Sophia has stopped.")
		}
	})
}

func stopProcess(pid int) (was, killed bool, err error) {
	p := daemon.Find(pid, daemon.Program)
	if p == nil {
		return false, false, nil
	}
	defer p.Close()
	if err := p.Signal(unix.SIGTERM); err != nil {
		return true, false, problem.Wrap(err, "daemon_not_stopped", "the daemon (pid %d) can't be signalled", pid)
	}
	if p.Wait(stopGrace) {
		return true, false, nil
	}
	if err := p.Signal(unix.SIGKILL); err != nil || !p.Wait(killGrace) {
		return true, true, problem.Wrap(err, "daemon_not_stopped", "the daemon (pid %d) does not end", pid)
	}
	return true, true, nil
}

type status struct {
	app  *App
	tree bool
}

func newStatus(a *App) *cobra.Command {
	o := &status{app: a}
	c := &cobra.Command{
		Use: "status", Short: "Show how the daemon is", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVar(&o.tree, "tree", false, "also every part of the supervision tree")
	return c
}

func (o *status) run(ctx context.Context) error {
	s, err := o.app.ping(ctx)
	if err != nil {
		return err
	}
	return o.app.print(s, func(w io.Writer) { o.show(w, s) })
}

func (o *status) show(w io.Writer, s ownerapi.Status) {
	a := o.app
	unit := s.Unit
	if unit == "" {
		unit = "none, in the foreground"
	}
	a.fields(w, [][2]string{
		{"state", "running"}, {"pid", fmt.Sprint(s.PID)}, {"version", s.Version}, {"since", a.at(s.Started)}, {"unit", unit},
		{"portal", s.Portal}, {"mcp", s.MCP},
		{"connections", fmt.Sprint(s.Connections)}, {"workspaces", fmt.Sprint(s.Workspaces)}, {"agents", fmt.Sprint(s.Launches)},
		{"waiting for you", fmt.Sprint(s.Waiting)}, {"changes", fmt.Sprint(s.Mutations)}, {"parts", parts(s.Tree)},
	})
	switch {
	case o.tree:
		fmt.Fprintln(w)
		var rows [][]string
		for _, n := range s.Tree {
			restarts := ""
			if n.Restarts > 0 {
				restarts = fmt.Sprint(n.Restarts)
			}
			rows = append(rows, []string{n.Path, n.State, restarts})
		}
		a.table(w, []string{"PART", "STATE", "RESTARTS"}, rows, "")
	case s.Waiting > 0:
		a.hint(w, "What waits for you: sophia approval list")
	case s.Connections == 0:
		a.hint(w, "Connect an agent with: sophia connect codex (or claude-code, cursor, generic)")
	}
}

// parts sums the supervision tree up. One that has done its work is down, and
// that is well.
func parts(tree []ownerapi.TreeNode) string {
	up, text := 0, ""
	for _, n := range tree {
		switch {
		case n.Restarts > 0:
			text += fmt.Sprintf(", %s %s after %s", n.Path, n.State, counted(n.Restarts, "restart"))
		case n.State != "up" && n.State != "down":
			text += fmt.Sprintf(", %s %s", n.Path, n.State)
		}
		if n.State == "up" {
			up++
		}
	}
	return fmt.Sprintf("%d up%s", up, text)
}
