package ownercli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
)

func newHarness(a *App) *cobra.Command {
	return noun("harness", "Harnesses: the agent programs that launches run", newHarnessList(a), newHarnessAdopt(a))
}

type harnessList struct{ app *App }

func newHarnessList(a *App) *cobra.Command {
	o := &harnessList{app: a}
	return &cobra.Command{
		Use: "list", Short: "List harnesses and what is adopted of them", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
}

func (o *harnessList) run(ctx context.Context) error {
	page, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[ownerapi.Harness], error) {
		return c.Harnesses(ctx)
	})
	if err != nil {
		return err
	}
	return o.app.print(page, func(w io.Writer) {
		var rows [][]string
		any := false
		for _, h := range page.Items {
			adopted := "no"
			if h.Adopted {
				adopted, any = brief(h.Tree), true
			}
			rows = append(rows, []string{h.Harness, h.Title, h.Version, adopted, h.Path})
		}
		o.app.table(w, []string{"HARNESS", "TITLE", "PINNED VERSION", "ADOPTED", "PROGRAM"}, rows, "No harnesses.")
		if !any {
			o.app.hint(w, "Launches run an adopted copy. Make one with: sophia harness adopt codex")
		}
	})
}

type harnessAdopt struct {
	app  *App
	path string
}

func newHarnessAdopt(a *App) *cobra.Command {
	o := &harnessAdopt{app: a}
	c := &cobra.Command{
		Use: "adopt HARNESS", Short: "Copy a harness into Sophia's own folder, verified and witnessed", Args: exactly("harness"),
		Long: `adopt copies the harness's whole folder into Sophia's own, read-only, pins its
digest, and launches from there. An upgrade of the original changes nothing
until it is adopted again.`,
		ValidArgsFunction: completeIDs(a, a.harnessIDs),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&o.path, "path", "", "its executable; found on PATH when not given")
	return c
}

func (o *harnessAdopt) run(ctx context.Context, harness string) error {
	path := o.path
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(o.app.Dir, path)
	}
	h, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Harness, error) {
		return c.Adopt(ctx, ownerapi.AdoptRequest{Harness: harness, Path: path})
	})
	if err != nil {
		return err
	}
	return o.app.print(h, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s is adopted.\n", oneLine(h.Title), oneLine(h.Version))
		pairs := [][2]string{{"program", h.Path}, {"tree", h.Tree}}
		if h.Identity != nil {
			pairs = append(pairs, [2]string{"sha256", h.Identity.SHA256})
		}
		o.app.fields(w, pairs)
	})
}
