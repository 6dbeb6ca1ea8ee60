package ownercli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/messages"
)

func newApproval(a *App) *cobra.Command {
	return noun("approval", "Approvals: what waits for you (answer in sophia-tray)", newApprovalList(a))
}

type approvalList struct{ app *App }

func newApprovalList(a *App) *cobra.Command {
	o := &approvalList{app: a}
	return &cobra.Command{
		Use: "list", Short: "List what waits for you", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
}

func (o *approvalList) run(ctx context.Context) error {
	page, err := call(ctx, o.app, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.ApprovalRequest], error) {
		return c.Approvals(ctx)
	})
	if err != nil {
		return err
	}
	return o.app.print(page, func(w io.Writer) {
		now := o.app.now()
		var rows [][]string
		for _, r := range page.Items {
			rows = append(rows, []string{r.ID, r.Requester, r.Title, ago(r.Requested, now), ago(r.Expires, now)})
		}
		o.app.table(w, []string{"APPROVAL", "WHO", "WHAT", "ASKED", "EXPIRES"}, rows, "Nothing waits for you.")
		if len(rows) > 0 {
			o.app.hint(w, "Answer in a terminal of yours: sophia-tray")
		}
	})
}
