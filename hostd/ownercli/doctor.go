package ownercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sophia/hostd/config"
	"sophia/hostd/doctor"
	"sophia/hostd/doctor/probe"
	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
	"sophia/hostd/paths"
	"sophia/messages/problem"
)

// Waits of doctor. The full checks read every byte of the store.
const (
	lookWait = 15 * time.Second
	fullWait = 30 * time.Minute
)

type doctorCommand struct {
	app  *App
	full bool
}

func newDoctor(a *App) *cobra.Command {
	o := &doctorCommand{app: a}
	c := &cobra.Command{
		Use: "doctor", Short: "Check everything that can be wrong, and say how to mend it", Args: exactly(),
		Long: `doctor looks at this machine and asks the daemon, changes nothing, and says of
each thing whether it is ok, a warning (Sophia works, and something is missing: it
says what that costs), or has failed. It exits with 1 when something has failed.
Without a daemon it makes the checks that need none.`,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVar(&o.full, "full", false, "also read the whole store and all of the adopted harnesses again, which may take minutes")
	return c
}

func (o *doctorCommand) run(ctx context.Context) error {
	report := doctor.NewReport(o.checks(ctx))
	if err := o.app.print(report, func(w io.Writer) { o.show(w, report) }); err != nil {
		return err
	}
	if report.Fail > 0 {
		return errShown
	}
	return nil
}

// errShown ends a command whose output has told already that it failed.
var errShown = errors.New("what was shown has failed")

func (o *doctorCommand) checks(ctx context.Context) []doctor.Check {
	a := o.app
	dirs, err := a.Dirs()
	if err != nil {
		p := ownertext.Presentable(err)
		return []doctor.Check{{Name: "folders", State: doctor.Fail, Detail: p.Message, Mend: p.Hint}}
	}
	units := a.service("").Manager
	defer units.Close()
	bounded, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()

	facts, askErr := o.ask(ctx)
	systemd := probe.Systemd(bounded, units)
	checks := doctor.Folders(probe.Folders(dirs))
	checks = append(checks, doctor.SocketPath(dirs.Runtime), doctor.OwnerKey(probe.OwnerKey(dirs.OwnerKey())))
	settings, configured := o.config(dirs)
	checks = append(checks, configured)
	checks = append(checks, doctor.Programs(a.Programs, probe.Programs(bounded, a.Programs), facts.Programs)...)
	checks = append(checks, doctor.Manager(systemd)...)
	checks = append(checks, doctor.ControlGroups(probe.ControlGroups()), doctor.Strict(probe.UnitRoot()))
	checks = append(checks, doctor.KernelFeatures(probe.Kernel(dirs.Harnesses()))...)
	checks = append(checks, doctor.Disks(probe.Disks(dirs))...)
	if askErr != nil {
		p := ownertext.Presentable(askErr)
		return append(checks, doctor.Listening(probe.Free(settings.Listen)), doctor.Unreachable(p.Message, p.Hint))
	}
	if at, err := url.Parse(facts.MCP); err == nil {
		checks = append(checks, doctor.Listening(probe.Answers(bounded, at.Host)))
	}
	return append(checks, doctor.Judge(facts, systemd.Problem == "")...)
}

// ask gets the daemon's own account.
func (o *doctorCommand) ask(ctx context.Context) (doctor.Daemon, error) {
	if _, err := o.app.ping(ctx); problem.CodeOf(err) != "not_available" && err != nil {
		return doctor.Daemon{}, err // at once, also where the full checks would be waited for
	}
	wait := lookWait
	if o.full {
		wait = fullWait
		o.app.say("Reading the whole store and every adopted harness…\n")
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (doctor.Daemon, error) { return c.Doctor(ctx, o.full) })
}

func (o *doctorCommand) config(dirs paths.Dirs) (config.Config, doctor.Check) {
	path := dirs.ConfigFile()
	settings, err := config.Load(path)
	if err != nil {
		return config.Config{Listen: config.DefaultListen}, doctor.Config(path, false, ownertext.Presentable(err).Message)
	}
	_, statErr := os.Stat(path)
	return settings, doctor.Config(path, errors.Is(statErr, fs.ErrNotExist), "")
}

// show prints one line a check, with what to do below it; for scripts it is
// state, name, detail, mend.
func (o *doctorCommand) show(w io.Writer, r doctor.Report) {
	a := o.app
	if !a.OutTTY {
		for _, c := range r.Checks {
			fmt.Fprintln(w, strings.Join([]string{string(c.State), c.Name, oneLine(c.Detail), oneLine(c.Mend)}, "\t"))
		}
		return
	}
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range r.Checks {
		state := a.green("ok  ")
		switch c.State {
		case doctor.Warn:
			state = a.yellow("warn")
		case doctor.Fail:
			state = a.red("FAIL")
		}
		lead := fmt.Sprintf("%s  %-*s  ", state, width, c.Name)
		indent := strings.Repeat(" ", len("warn")+2+width+2)
		for _, line := range wrapped(oneLine(c.Detail), a.columns()-len(indent)) {
			fmt.Fprintf(w, "%s%s\n", lead, line)
			lead = indent
		}
		for _, line := range wrapped(oneLine(c.Mend), a.columns()-len(indent)) {
			fmt.Fprintf(w, "%s%s\n", indent, a.bold(line))
		}
	}
	fmt.Fprintf(w, "\n%s\n", verdict(r))
}

func verdict(r doctor.Report) string {
	switch {
	case r.Fail == 0 && r.Warn == 0:
		return fmt.Sprintf("All %d checks are ok.", r.OK)
	case r.Fail == 0:
		return fmt.Sprintf("%d checks are ok, %s.", r.OK, counted(r.Warn, "warning"))
	}
	return fmt.Sprintf("%s, %s, %d ok.", counted(r.Fail, "failure"), counted(r.Warn, "warning"), r.OK)
}

// counted is "1 warning", "2 warnings".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
