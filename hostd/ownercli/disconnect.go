package ownercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/paths"
	"sophia/messages"
	"sophia/messages/problem"
)

type disconnect struct {
	app    *App
	config string
	yes    bool
}

func newDisconnect(a *App) *cobra.Command {
	o := &disconnect{app: a}
	c := &cobra.Command{
		Use: "disconnect CLIENT|CONNECTION", Short: "Undo exactly what connect did", Args: exactly("client|connection"),
		Long: `disconnect takes back what connect wrote: the agent's configuration gets its old
bytes back (or, if it was edited since, loses the entry for Sophia alone), the
bearer's file is removed, and the connection is revoked. It shows the change
first.`,
		Example: `  sophia disconnect codex
  sophia disconnect conn-6f1a0c2b`,
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: a.completeConnected(),
	}
	c.Flags().StringVar(&o.config, "config", "", "the configuration file, if there is one in several places")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "without asking")
	return c
}

// disconnectResult is disconnect's JSON.
type disconnectResult struct {
	Connections []string `json:"connections"` // revoked
	Config      string   `json:"config,omitempty"`
	Undone      string   `json:"undone,omitempty"` // as_before, entry_gone, left_alone
	FileRemoved bool     `json:"file_removed"`     // connect had made the file
}

func (o *disconnect) run(ctx context.Context, named string) error {
	a := o.app
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	if !o.yes && (a.JSON || !a.InTTY) {
		return usage("nobody can be asked here; add --yes to disconnect %s", named)
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	page, err := c.Connections(ctx)
	if err != nil {
		return err
	}
	notes, err := allWired(dirs)
	if err != nil {
		return err
	}
	targets, err := o.targets(named, notes, page.Items)
	if err != nil {
		return err
	}
	u, err := planUndo(notes, targets, living(page.Items, time.Now()))
	if err != nil {
		return err
	}
	if err := o.consent(u, targets); err != nil {
		return err
	}
	if err := u.apply(); err != nil {
		return err
	}
	for _, id := range targets {
		if _, err := c.Revoke(ctx, id); err != nil {
			return err
		}
	}
	for _, w := range u.over {
		if err := w.forget(dirs); err != nil {
			return err
		}
	}
	result := disconnectResult{Connections: targets, Config: u.path, Undone: u.how, FileRemoved: u.how != undoneNothing && u.after == nil && u.path != ""}
	return a.print(result, func(w io.Writer) { o.show(w, result) })
}

// living are the connections whose bearer is still good.
func living(all []messages.ConnectionRow, now time.Time) map[string]bool {
	out := map[string]bool{}
	for _, row := range all {
		if row.Revoked == nil && (row.Expires == nil || now.Before(*row.Expires)) {
			out[row.Connection] = true
		}
	}
	return out
}

// targets are the connections that are meant.
func (o *disconnect) targets(named string, notes []wired, rows []messages.ConnectionRow) ([]string, error) {
	cl, isClient := clientOf(named)
	if !isClient {
		var live []string
		for _, row := range rows {
			if row.Connection == named {
				return []string{named}, nil
			}
			if row.Revoked == nil {
				live = append(live, row.Connection)
			}
		}
		for _, cl := range clients {
			live = append(live, cl.verb)
		}
		return nil, problem.New("connection_not_found", "there is neither a connection nor a kind of agent %q", named).WithValid(live...)
	}
	path, err := o.path(cl)
	if err != nil {
		return nil, err
	}
	var here, anywhere []string
	places := map[string]bool{}
	for _, w := range notes {
		if w.Client != named {
			continue
		}
		anywhere = append(anywhere, w.Connection)
		places[w.Path] = true
		if path != "" && w.Path == path {
			here = append(here, w.Connection)
		}
	}
	switch {
	case len(here) > 0:
		return here, nil
	case o.config == "" && path != "" && len(places) == 1:
		return anywhere, nil
	case len(anywhere) == 1 && o.config == "":
		return anywhere, nil
	case len(anywhere) == 0 || o.config != "":
		return nil, problem.New("connection_not_found", "%s was not connected here by sophia connect", cl.title).
			WithHint("Connections: sophia connection list. Revoke one with: sophia connection revoke")
	}
	return nil, problem.New("usage", "%s is connected more than once; say which connection", cl.title).WithValid(anywhere...)
}

// path is the configuration that is meant, symbolic links resolved.
func (o *disconnect) path(cl client) (string, error) {
	if cl.file == nil {
		return "", nil
	}
	path := o.config
	if path == "" {
		path = cl.file(o.app)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.app.Dir, path)
	}
	return resolved(path), nil
}

// resolved is a path with its symbolic links resolved: dotfiles are often links.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// undoing is one file on its way back.
type undoing struct {
	path          string // "" when connect wrote no configuration
	before, after []byte // after is nil when there is to be no file
	how           string
	over          []wired // notes that are not needed any more
}

// planUndo takes back the changes of targets, newest first, and on the way
// those of connections that have ended: the entry that an older one left must
// not come to life again. It stops at the first that lives and was not meant.
func planUndo(notes []wired, targets []string, alive map[string]bool) (undoing, error) {
	var u undoing
	meant := map[string]bool{}
	for _, id := range targets {
		meant[id] = true
	}
	for _, w := range notes {
		if meant[w.Connection] {
			u.path = w.Path
			if w.Path == "" {
				u.over = append(u.over, w)
			}
		}
	}
	if u.path == "" {
		return u, nil
	}
	var err error
	if u.before, err = os.ReadFile(u.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, problem.Wrap(err, "config_not_read", "%s can't be read", u.path)
	}
	u.after, u.how = u.before, undoneNothing
	for _, w := range notes {
		if w.Path != u.path {
			continue
		}
		if !meant[w.Connection] && alive[w.Connection] {
			break // and what is older stays noted until this one goes
		}
		after, how, err := w.undo(u.after)
		if err != nil {
			return u, problem.Wrap(err, "config_not_understood", "%s can't be changed safely", u.path).
				WithHint("Take the entry for sophia out of it yourself, then run: sophia connection revoke %s", w.Connection)
		}
		if how != undoneNothing && u.how != undoneEntry {
			u.how = how
		}
		u.after, u.over = after, append(u.over, w)
	}
	return u, nil
}

func (u undoing) apply() error {
	var err error
	switch {
	case u.path == "" || u.how == undoneNothing:
	case u.after == nil:
		if err = os.Remove(u.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = replaceFile(u.path, u.after)
	}
	if err != nil {
		return problem.Wrap(err, "config_not_written", "%s can't be written", u.path).WithHint("Nothing was revoked.")
	}
	return nil
}

func (o *disconnect) consent(u undoing, targets []string) error {
	a := o.app
	if !a.JSON && u.path != "" {
		switch {
		case u.how == undoneNothing:
			fmt.Fprintf(a.Out, "%s has no entry of this connection any more; it stays as it is.\n", oneLine(u.path))
		default:
			fmt.Fprintf(a.Out, "%s\n", a.bold(oneLine(u.path)))
			a.diff(a.Out, string(u.before), string(u.after))
			if u.after == nil {
				fmt.Fprintln(a.Out, a.dim("The file is removed: connect had made it."))
			}
		}
	}
	if o.yes {
		return nil
	}
	agreed, err := a.ask("Write it, and revoke " + strings.Join(targets, ", ") + "?")
	if err == nil && !agreed {
		err = problem.New("refused", "nothing was changed")
	}
	return err
}

func (o *disconnect) show(w io.Writer, r disconnectResult) {
	verb := "is"
	if len(r.Connections) > 1 {
		verb = "are"
	}
	fmt.Fprintf(w, "%s %s revoked, with the bearer's file.\n", strings.Join(r.Connections, ", "), verb)
	switch r.Undone {
	case undoneExactly:
		fmt.Fprintf(w, "%s is as it was before.\n", oneLine(r.Config))
	case undoneEntry:
		fmt.Fprintf(w, "%s has lost its entry for Sophia; what was edited since stays.\n", oneLine(r.Config))
	}
}

// completeConnected offers the kinds of agent that are connected, and living
// connections.
func (a *App) completeConnected() cobra.CompletionFunc {
	return completeIDs(a, func(ctx context.Context) ([]string, error) {
		dirs, err := a.Dirs()
		if err != nil {
			return nil, err
		}
		var out []string
		notes, err := allWired(dirs)
		for _, w := range notes {
			if cl, found := clientOf(w.Client); found {
				out = append(out, cobra.CompletionWithDesc(w.Client, cl.title))
			}
		}
		if err != nil {
			return nil, err
		}
		connections, err := a.livingConnections(ctx)
		return append(out, connections...), err
	})
}

// noted keeps what connect is about to write.
func (o *connect) noted(dirs paths.Dirs, minted ownerapi.Minted, wiring Wiring, path string, existed bool, before, after []byte) (*wired, error) {
	w := &wired{Connection: minted.Connection, Client: o.client.verb, At: minted.Created, Wiring: wiring, Path: path}
	if path != "" {
		w.Made = !existed
		w.change(before, after)
	}
	return w, w.save(dirs)
}
