package ownercli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/paths"
	"sophia/messages/problem"
)

type connect struct {
	app *App
	authority
	client client
	name   string
	config string
	http   bool
	yes    bool
}

func newConnect(a *App) *cobra.Command {
	var verbs []*cobra.Command
	for _, cl := range clients {
		verbs = append(verbs, newConnectClient(a, cl))
	}
	c := noun("connect", "Connect an agent: mint, configure, check", verbs...)
	c.Long = `connect mints a connection, puts its bearer into a file of mode 0600, shows the
change to the agent's configuration, writes it when you agree, and checks it with
a real sophia.orient over the very command that the agent will run.

` + presenceNote
	return c
}

func newConnectClient(a *App, cl client) *cobra.Command {
	o := &connect{app: a, client: cl}
	c := &cobra.Command{
		Use: cl.verb, Short: "Connect " + cl.title, Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.flags(c)
	f := c.Flags()
	f.Lookup("tool-names").DefValue = cl.toolNames
	o.toolNames = cl.toolNames
	f.StringVar(&o.name, "name", cl.title, "name of the connection, shown in the audit log and on posts")
	if cl.file != nil {
		f.StringVar(&o.config, "config", "", "its configuration file, if not the usual one")
		f.BoolVar(&o.http, "http", false, "over HTTP with the bearer in $SOPHIA_BEARER, instead of sophia-wrapper")
		f.BoolVarP(&o.yes, "yes", "y", false, "write without asking")
	}
	return c
}

// connectResult is connect's JSON.
type connectResult struct {
	Connection ownerapi.Minted `json:"connection"`
	Config     string          `json:"config,omitempty"` // the file that was written
	Checked    bool            `json:"checked"`          // sophia.orient answered
	Export     string          `json:"export,omitempty"` // what the agent's shell needs
}

func (o *connect) run(ctx context.Context) error {
	a := o.app
	path := ""
	if o.client.file != nil {
		if path = o.config; path == "" {
			path = o.client.file(a)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.Dir, path)
		}
		if !o.yes && (a.JSON || !a.InTTY) {
			return usage("nobody can be asked here; add --yes to write %s", path)
		}
	}
	wrapper, err := a.program("sophia-wrapper")
	if err != nil {
		return err
	}
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	minted, err := gated(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Minted, error) {
		return c.Mint(ctx, o.request(o.name))
	})
	if err != nil {
		return err
	}
	result := connectResult{Connection: minted}
	if o.http || o.client.file == nil {
		result.Export = "export SOPHIA_BEARER=\"$(cat " + shellQuote(minted.BearerFile) + ")\""
	}
	// Whatever goes wrong from here on, an unused connection must not stay.
	undo := func(cause error) error {
		if _, err := c.Revoke(context.WithoutCancel(ctx), minted.Connection); err != nil {
			return errors.Join(cause, err)
		}
		return cause
	}
	wiring := Wiring{URL: minted.MCP, BearerFile: minted.BearerFile, Wrapper: wrapper, HTTP: o.http}
	if path != "" {
		if err := o.configure(ctx, dirs, path, wiring, wrapper, minted); err != nil {
			return undo(err)
		}
		result.Config = path
	} else {
		if err := check(ctx, wrapper, minted); err != nil {
			return undo(err)
		}
		if _, err := o.noted(dirs, minted, wiring, "", false, nil, nil); err != nil {
			return undo(err)
		}
	}
	result.Checked = true
	return a.print(result, func(w io.Writer) { o.show(w, result) })
}

// configure shows, asks, writes, checks, and puts things back when the check
// fails.
func (o *connect) configure(ctx context.Context, dirs paths.Dirs, path string, wiring Wiring, wrapper string, minted ownerapi.Minted) error {
	a := o.app
	path = resolved(path) // the link stays
	before, err := os.ReadFile(path)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.Wrap(err, "config_not_read", "%s can't be read", path)
	}
	after, err := o.client.edit(before, wiring)
	if err != nil {
		return problem.Wrap(err, "config_not_understood", "%s can't be changed safely", path).
			WithHint("Add this yourself:\n%s", o.client.snippet(wiring))
	}
	if !a.JSON {
		fmt.Fprintf(a.Out, "%s\n", a.bold(path))
		a.diff(a.Out, string(before), string(after))
	}
	if !o.yes {
		agreed, err := a.ask("Write it?")
		if err != nil {
			return err
		}
		if !agreed {
			return problem.New("refused", "nothing was changed").WithHint("The connection is revoked again.")
		}
	}
	note, err := o.noted(dirs, minted, wiring, path, existed, before, after) // first, so that nothing is written that can't be undone
	if err != nil {
		return err
	}
	if err := replaceFile(path, after); err != nil {
		return errors.Join(problem.Wrap(err, "config_not_written", "%s can't be written", path), note.forget(dirs))
	}
	if err := check(ctx, wrapper, minted); err != nil {
		restored := error(nil)
		if existed {
			restored = replaceFile(path, before)
		} else {
			restored = os.Remove(path)
		}
		return errors.Join(err, restored, note.forget(dirs))
	}
	return nil
}

func (o *connect) show(w io.Writer, r connectResult) {
	a := o.app
	fmt.Fprintf(w, "%s is connected as %s: %s/%s, scope %s. sophia.orient answered.\n",
		oneLine(r.Connection.Name), r.Connection.Connection, r.Connection.Profile, r.Connection.Surface, scopeText(r.Connection.Scope))
	pairs := [][2]string{{"MCP", r.Connection.MCP}, {"bearer", r.Connection.BearerFile}}
	if r.Config != "" {
		pairs = append(pairs, [2]string{"config", r.Config})
	}
	a.fields(w, pairs)
	if r.Export != "" {
		fmt.Fprintf(w, "In the agent's shell:  %s\n", r.Export)
	}
	fmt.Fprintf(w, "%s\n", a.dim("Undo it with: "+a.command("disconnect "+r.Connection.Connection)))
}

// ask asks a question whose answer is no unless it is clearly yes.
func (a *App) ask(question string) (bool, error) {
	fmt.Fprintf(a.Out, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// replaceFile replaces a file in one step and keeps its mode; a new one is
// private.
func replaceFile(path string, text []byte) error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sophia-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
