package ownercli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
)

func newJournal(a *App) *cobra.Command {
	return noun("journal", "Journal: every change, and the way back", newJournalList(a), newJournalShow(a), newJournalRevert(a))
}

type journalList struct {
	app   *App
	query ownerapi.JournalQuery
}

func newJournalList(a *App) *cobra.Command {
	o := &journalList{app: a}
	c := &cobra.Command{
		Use: "list", Short: "List changes, newest first", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&o.query.Table, "table", "", "of this table only")
	f.StringVar(&o.query.Key, "key", "", "of this row only")
	f.IntVar(&o.query.Limit, "limit", 20, "at most so many")
	f.StringVar(&o.query.Cursor, "cursor", "", "go on where an earlier list ended")
	return c
}

func (o *journalList) run(ctx context.Context) error {
	if o.query.Limit < 1 || o.query.Limit > 1000 {
		return usage("--limit is a number from 1 to 1000")
	}
	page, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[ownerapi.Mutation], error) {
		return c.Journal(ctx, o.query)
	})
	if err != nil {
		return err
	}
	return o.app.print(page, func(w io.Writer) {
		now := o.app.now()
		var rows [][]string
		for _, m := range page.Items {
			rows = append(rows, []string{strconv.FormatUint(m.Seq, 10), ago(m.At, now), m.Actor.Name, change(m), m.Table + " " + m.Key, reverted(m)})
		}
		o.app.table(w, []string{"#", "WHEN", "WHO", "WHAT", "ROW", ""}, rows, "No changes yet.")
		if page.Cursor != "" {
			o.app.hint(w, "%d of %d; more with --cursor %s", len(rows), page.Total, page.Cursor)
		}
	})
}

func change(m ownerapi.Mutation) string {
	switch {
	case m.Reverts != 0:
		return fmt.Sprintf("revert of %d", m.Reverts)
	case ownertext.NoRow(m.Before):
		return "insert"
	case ownertext.NoRow(m.After):
		return "delete"
	}
	return "update"
}

func reverted(m ownerapi.Mutation) string {
	if m.Reverted == 0 {
		return ""
	}
	return fmt.Sprintf("reverted by %d", m.Reverted)
}

type journalShow struct{ app *App }

func newJournalShow(a *App) *cobra.Command {
	o := &journalShow{app: a}
	return &cobra.Command{
		Use: "show NUMBER", Short: "Show one change: before and after", Args: exactly("number"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: completeIDs(a, a.recentChanges),
	}
}

func (o *journalShow) run(ctx context.Context, number string) error {
	seq, err := mutationNumber(number)
	if err != nil {
		return err
	}
	m, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Mutation, error) { return c.Mutation(ctx, seq) })
	if err != nil {
		return err
	}
	return o.app.print(m, func(w io.Writer) {
		o.app.fields(w, [][2]string{
			{"change", number}, {"when", o.app.at(m.At)}, {"who", m.Actor.Name + " (" + m.Actor.Connection + ")"},
			{"what", change(m)}, {"row", m.Table + " " + m.Key}, {"why", m.Reason}, {"tool", m.Tool}, {"since then", reverted(m)},
		})
		o.app.diff(w, ownertext.Indented(m.Before), ownertext.Indented(m.After))
	})
}

type journalRevert struct {
	app    *App
	reason string
}

func newJournalRevert(a *App) *cobra.Command {
	o := &journalRevert{app: a}
	c := &cobra.Command{
		Use: "revert NUMBER", Short: "Undo one change; the undoing is a change too", Args: exactly("number"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: completeIDs(a, a.recentChanges),
	}
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the journal")
	return c
}

func (o *journalRevert) run(ctx context.Context, number string) error {
	seq, err := mutationNumber(number)
	if err != nil {
		return err
	}
	m, err := gated(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Mutation, error) {
		return c.Revert(ctx, seq, o.reason)
	})
	if err != nil {
		return err
	}
	return o.app.print(m, func(w io.Writer) {
		fmt.Fprintf(w, "%s is reverted by %d (%s %s).\n", number, m.Seq, oneLine(m.Table), oneLine(m.Key))
	})
}

func mutationNumber(text string) (uint64, error) {
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seq == 0 {
		return 0, usage("%q is no change's number", text)
	}
	return seq, nil
}
