package main

import (
	"context"
	"encoding/json"
	"os"

	"sophia/actors/connections"
	"sophia/actors/launches/lease"
	"sophia/actors/supervise"
	"sophia/actors/trays"
	hostconnections "sophia/hostd/connections"
	"sophia/hostd/ownerapi"
	"sophia/mcp/dispatch"
	"sophia/mcp/registry"
	"sophia/mcp/tools"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
)

// services are what the owner API offers, over the daemon's parts.
func (d *sophiad) services() ownerapi.Services {
	return ownerapi.Services{
		Status: d.status, Connections: minted{d.connections, d.surface.live}, Workspaces: d.workspaces, Launches: launchesAPI{d, d.launches},
		Approvals: d.gate, Trays: trayFeeds{d.hub}, Journal: journal{d}, Tools: ownerTools{d}, Harnesses: d.harnesses, Doctor: d.doctor,
	}
}

// minted are the connections as the owner API sees them.
type minted struct {
	*hostconnections.Service
	live *connections.Connections
}

// Revoke also ends the connection's actor. Its next call is refused, also one
// from a script that runs and one that waits for the owner's approval; a handler
// that is at work is not torn away.
func (m minted) Revoke(ctx context.Context, id string) (messages.ConnectionRow, error) {
	row, err := m.Service.Revoke(ctx, id)
	if err != nil {
		return row, err
	}
	return row, m.live.Drop(ctx, id)
}

// cliAuthority is what the owner's key may do by itself. It is not the portal's:
// an agent with a shell can use the key too, so every write needs the owner's
// presence.
func cliAuthority() messages.Authority {
	return messages.Authority{Connection: "owner", Name: "owner (command line)", Profile: messages.Assistant, Surface: messages.SurfaceFull, Scope: []string{"*"}, ToolNames: messages.DottedNames}
}

// live is connections.Live; the owner's key is no connection that is revoked.
func (d *sophiad) live(ctx context.Context, a messages.Authority) error {
	if a.Connection == cliAuthority().Connection {
		return nil
	}
	return d.connections.Live(ctx, a)
}

func (d *sophiad) status(ctx context.Context) (ownerapi.Status, error) {
	own, err := d.host.Units.OwnUnit(ctx)
	if err != nil {
		own = "" // no systemd here: in the foreground
	}
	connections, err := d.connections.List(ctx)
	if err != nil {
		return ownerapi.Status{}, err
	}
	workspaces, err := d.workspaces.List(ctx)
	if err != nil {
		return ownerapi.Status{}, err
	}
	leases, err := d.launches.List(ctx)
	if err != nil {
		return ownerapi.Status{}, err
	}
	head, _ := d.db.Head()
	return ownerapi.Status{
		PID: os.Getpid(), Started: d.started, Version: version, MCP: d.address.MCP, Portal: d.address.Portal, Unit: own,
		Connections: count(connections, func(c messages.ConnectionRow) bool { return c.Revoked == nil }),
		Workspaces:  len(workspaces), Launches: count(leases, func(l messages.Lease) bool { return !lease.Final(l.State) }),
		Waiting: d.gate.Waiting(), Trays: d.hub.Subscribers(), Mutations: head, Tree: nodes(d.tree.Snapshot(), nil),
	}, nil
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}

func nodes(all []supervise.Status, out []ownerapi.TreeNode) []ownerapi.TreeNode {
	for _, s := range all {
		out = append(out, ownerapi.TreeNode{Path: s.Path, State: s.State, Restarts: s.Restarts})
		out = nodes(s.Kids, out)
	}
	return out
}

type trayFeeds struct{ hub *trays.Hub }

func (t trayFeeds) Subscribe(ctx context.Context, name string) (ownerapi.Feed, error) {
	return t.hub.Subscribe(ctx, name)
}

// journal is the time machine as the owner sees it.
type journal struct{ d *sophiad }

func (j journal) List(_ context.Context, q ownerapi.JournalQuery) (ownerapi.Page[ownerapi.Mutation], error) {
	r := j.d.db.View(store.Owner())
	defer r.Close()
	page, err := r.Mutations(store.MutationQuery{Table: q.Table, Key: q.Key, Limit: q.Limit, Cursor: q.Cursor, Bind: "owner"})
	out := ownerapi.Page[ownerapi.Mutation]{Items: []ownerapi.Mutation{}, Total: page.Total, Cursor: page.Cursor}
	undone := undoingsIn(r)
	for _, e := range page.Items {
		m, failed := mutation(e, undone)
		if failed != nil {
			return out, failed
		}
		out.Items = append(out.Items, m)
	}
	return out, err
}

func (j journal) Get(_ context.Context, seq uint64) (ownerapi.Mutation, error) {
	r := j.d.db.View(store.Owner())
	defer r.Close()
	e, err := r.Entry(seq)
	if err != nil {
		return ownerapi.Mutation{}, problem.Wrap(err, "mutation_not_found", "there is no mutation %d", seq).WithHint("sophia journal list shows them.")
	}
	return mutation(e, undoingsIn(r))
}

// Revert is sophia.revert_mutation, called by the owner: elevated, so it waits
// for the owner's presence.
func (j journal) Revert(ctx context.Context, seq uint64, reason string) (ownerapi.Mutation, error) {
	m, err := j.Get(ctx, seq)
	if err != nil {
		return ownerapi.Mutation{}, err
	}
	if !j.revertible(seq) {
		return ownerapi.Mutation{}, problem.New("mutation_not_revertible", "change %d is of %s, which Sophia keeps for itself", seq, m.Table).
			WithHint("A connection is undone with: sophia connection revoke")
	}
	args, err := json.Marshal(map[string]string{"id": j.d.db.ID(seq), "reason": reason})
	if err != nil {
		return ownerapi.Mutation{}, err
	}
	body, err := ownerTools(j).Call(ctx, "sophia.revert_mutation", args)
	if err != nil {
		return ownerapi.Mutation{}, err
	}
	var done tools.Reverted
	if err := json.Unmarshal(body, &done); err != nil {
		return ownerapi.Mutation{}, err
	}
	last, err := j.d.db.Seq(done.Mutations[len(done.Mutations)-1])
	if err != nil {
		return ownerapi.Mutation{}, err
	}
	return j.Get(ctx, last)
}

// revertible: what no connection sees, however wide its scope, is the daemon's own.
func (j journal) revertible(seq uint64) bool {
	r := j.d.db.View(store.ScopeOf(cliAuthority().Scope))
	defer r.Close()
	_, err := r.Entry(seq)
	return err == nil
}

func mutation(e store.Entry, undone undoings) (ownerapi.Mutation, error) {
	reverted, err := undone.of(e)
	return ownerapi.Mutation{Seq: e.Seq, At: e.At, Actor: e.Actor, Table: e.Table, Key: e.Key, Before: e.Before, After: e.After,
		Reason: e.Reason, Tool: e.Tool, Reverts: e.Reverts, Reverted: reverted}, err
}

// undoings finds the last entry that undid another, which is in the same row's
// own history. Each row's is read once.
type undoings struct {
	r    *store.Reader
	rows map[[2]string]map[uint64]uint64
}

func undoingsIn(r *store.Reader) undoings { return undoings{r, map[[2]string]map[uint64]uint64{}} }

func (u undoings) of(e store.Entry) (uint64, error) {
	row := [2]string{e.Table, e.Key}
	known, read := u.rows[row]
	if !read {
		history, err := u.r.Mutations(store.MutationQuery{Table: e.Table, Key: e.Key, Reverts: true})
		if err != nil {
			return 0, err
		}
		known = map[uint64]uint64{}
		for _, later := range history.Items { // newest first
			if known[later.Reverts] == 0 {
				known[later.Reverts] = later.Seq
			}
		}
		u.rows[row] = known
	}
	return known[e.Seq], nil
}

// ownerTools is the surface under the owner's own authority.
type ownerTools struct{ d *sophiad }

func (t ownerTools) set() *registry.Set {
	return t.d.surface.dispatcher.Callable(cliAuthority(), false)
}

func (t ownerTools) List(context.Context) (out []ownerapi.Tool, err error) {
	for _, tool := range t.set().Tools() {
		row, err := ownerTool(tool)
		if err != nil {
			return nil, err
		}
		row.Description, row.Input, row.Output = "", nil, nil
		out = append(out, row)
	}
	return out, nil
}

func (t ownerTools) Describe(_ context.Context, name string) (ownerapi.Tool, error) {
	tool, err := t.set().Find(name)
	if err != nil {
		return ownerapi.Tool{}, err
	}
	return ownerTool(tool)
}

func (t ownerTools) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	r := t.d.surface.dispatcher.Call(ctx, dispatch.Request{Authority: cliAuthority(), Tool: name, Args: args})
	if r.Err != nil {
		return nil, r.Err
	}
	return r.Body, nil
}

func ownerTool(t *registry.Tool) (ownerapi.Tool, error) {
	in, err := json.Marshal(t.Input.Schema)
	if err != nil {
		return ownerapi.Tool{}, err
	}
	out, err := json.Marshal(t.PublishedOutput())
	return ownerapi.Tool{Name: t.Canonical, Group: string(t.Group), Summary: t.Summary, Description: t.Description,
		Writes: !t.ReadOnly(), Elevated: t.Effects.Elevated, Input: in, Output: out}, err
}
