package ownercli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
	"sophia/messages"
	"sophia/messages/problem"
)

func newApproval(a *App) *cobra.Command {
	return noun("approval", "Approvals: what waits for you (answer in sophia-tray)", newApprovalList(a), newApprovalShow(a))
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

type approvalShow struct{ app *App }

func newApprovalShow(a *App) *cobra.Command {
	o := &approvalShow{app: a}
	return &cobra.Command{
		Use: "show APPROVAL", Short: "Show one request: what it asks for, before and after", Args: exactly("approval"),
		RunE:              func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
		ValidArgsFunction: completeIDs(a, a.waitingApprovals),
	}
}

func (o *approvalShow) run(ctx context.Context, id string) error {
	a := o.app
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.ApprovalRequest], error) {
		return c.Approvals(ctx)
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(page.Items, func(r messages.ApprovalRequest) bool { return r.ID == id })
	if i < 0 {
		return problem.New("approval_not_found", "no approval %s waits for you", id).
			WithHint("What waits: sophia approval list. What was answered is in: sophia journal list --table approvals")
	}
	r := page.Items[i]
	return a.print(r, func(w io.Writer) {
		fields := [][2]string{{"approval", r.ID}, {"who", r.Requester}, {"terminal", r.Terminal}, {"what", r.Title}, {"tool", r.Tool},
			{"asked", a.at(r.Requested)}, {"expires", a.at(r.Expires)}}
		a.fields(w, append(fields, r.Details...))
		if !ownertext.NoRow(r.Arguments) {
			fmt.Fprintf(w, "%s\n%s\n", a.dim("arguments"), ownertext.Plain(ownertext.Indented(r.Arguments), true))
		}
		for _, c := range r.Preview {
			fmt.Fprintln(w, a.dim(oneLine("would change "+c.Table+" "+c.Key)))
			a.diff(w, ownertext.Indented(c.Before), ownertext.Indented(c.After))
		}
		a.hint(w, "Answer in a terminal of yours: sophia-tray")
	})
}

// waitingApprovals are the ids of what waits, for completion.
func (a *App) waitingApprovals(ctx context.Context) ([]string, error) {
	page, err := call(ctx, a, func(ctx context.Context, c *ownerapi.Client) (ownerapi.Page[messages.ApprovalRequest], error) {
		return c.Approvals(ctx)
	})
	var ids []string
	for _, r := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(r.ID, oneLine(r.Title)))
	}
	return ids, err
}
