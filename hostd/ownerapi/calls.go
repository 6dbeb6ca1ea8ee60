package ownerapi

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"sophia/hostd/doctor"
	"sophia/messages"
	"sophia/messages/secret"
)

// Status is how the daemon is; it doubles as the ping.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "GET", "/status", nil)
}

// Doctor is what the daemon knows of its own health. full makes the long checks
// too, which may take minutes.
func (c *Client) Doctor(ctx context.Context, full bool) (doctor.Daemon, error) {
	path := "/doctor"
	if full {
		path += "?full=true"
	}
	return call[doctor.Daemon](ctx, c, "GET", path, nil)
}

// Mint makes a connection. It waits for the owner where that takes presence.
func (c *Client) Mint(ctx context.Context, ask MintRequest) (Minted, error) {
	return call[Minted](ctx, c, "POST", "/connections", ask)
}

// Connections lists the minted connections, revoked ones too.
func (c *Client) Connections(ctx context.Context) (Page[messages.ConnectionRow], error) {
	return call[Page[messages.ConnectionRow]](ctx, c, "GET", "/connections", nil)
}

// Revoke ends a connection; its bearer fails on the next call.
func (c *Client) Revoke(ctx context.Context, id string) (messages.ConnectionRow, error) {
	return call[messages.ConnectionRow](ctx, c, "DELETE", "/connections/"+url.PathEscape(id), nil)
}

// AddWorkspace registers a checkout, or reads a registered one again.
func (c *Client) AddWorkspace(ctx context.Context, ask AddWorkspace) (AddedWorkspace, error) {
	return call[AddedWorkspace](ctx, c, "POST", "/workspaces", ask)
}

// Workspaces lists the registered checkouts.
func (c *Client) Workspaces(ctx context.Context) (Page[messages.Workspace], error) {
	return call[Page[messages.Workspace]](ctx, c, "GET", "/workspaces", nil)
}

// Profiles lists what can be started in a workspace.
func (c *Client) Profiles(ctx context.Context, workspace string) (Page[messages.LaunchProfile], error) {
	return call[Page[messages.LaunchProfile]](ctx, c, "GET", "/workspaces/"+url.PathEscape(workspace)+"/profiles", nil)
}

// Propose asks for a launch.
func (c *Client) Propose(ctx context.Context, workspace string, ask StartRequest) (messages.Lease, error) {
	return call[messages.Lease](ctx, c, "POST", "/workspaces/"+url.PathEscape(workspace)+"/launches", ask)
}

// Launches lists all launches, ended ones too.
func (c *Client) Launches(ctx context.Context) (Page[messages.Lease], error) {
	return call[Page[messages.Lease]](ctx, c, "GET", "/launches", nil)
}

// Launch is how a launch stands.
func (c *Client) Launch(ctx context.Context, id string) (messages.Lease, error) {
	return call[messages.Lease](ctx, c, "GET", "/launches/"+url.PathEscape(id), nil)
}

// WaitLaunch returns once the state is another than after.
func (c *Client) WaitLaunch(ctx context.Context, id string, after messages.LeaseState) (messages.Lease, error) {
	for {
		lease, err := call[messages.Lease](ctx, c, "GET", "/launches/"+url.PathEscape(id)+"?after="+url.QueryEscape(string(after)), nil)
		if err != nil || lease.State != after {
			return lease, err
		}
	}
}

// Attach takes the one attach token of a launch. The caller zeroes it.
func (c *Client) Attach(ctx context.Context, id string) (socket string, token *secret.Secret, err error) {
	resp, err := c.do(ctx, "POST", "/launches/"+url.PathEscape(id)+"/attach", nil)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	token, err = secret.Read(resp.Body, TokenSize)
	if err != nil {
		return "", nil, c.unreachable(ctx, err)
	}
	return resp.Header.Get(SocketHeader), token, nil
}

// StopLaunch asks for the end of a launch.
func (c *Client) StopLaunch(ctx context.Context, id string) (messages.Lease, error) {
	return call[messages.Lease](ctx, c, "POST", "/launches/"+url.PathEscape(id)+"/stop", nil)
}

// Approvals lists what waits for the owner. The codes to type are left out.
func (c *Client) Approvals(ctx context.Context) (Page[messages.ApprovalRequest], error) {
	return call[Page[messages.ApprovalRequest]](ctx, c, "GET", "/approvals", nil)
}

// Journal lists mutations, newest first.
func (c *Client) Journal(ctx context.Context, q JournalQuery) (Page[Mutation], error) {
	values := url.Values{}
	for name, value := range map[string]string{"table": q.Table, "key": q.Key, "cursor": q.Cursor} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	path := "/journal"
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return call[Page[Mutation]](ctx, c, "GET", path, nil)
}

// Mutation is one row of the journal.
func (c *Client) Mutation(ctx context.Context, seq uint64) (Mutation, error) {
	return call[Mutation](ctx, c, "GET", "/journal/"+strconv.FormatUint(seq, 10), nil)
}

// Revert undoes one mutation, and returns the one that did.
func (c *Client) Revert(ctx context.Context, seq uint64, reason string) (Mutation, error) {
	return call[Mutation](ctx, c, "POST", "/journal/"+strconv.FormatUint(seq, 10)+"/revert", RevertRequest{Reason: reason})
}

// Tools lists what the owner may call.
func (c *Client) Tools(ctx context.Context) (Page[Tool], error) {
	return call[Page[Tool]](ctx, c, "GET", "/tools", nil)
}

// Tool describes one tool; both spellings of a name are good.
func (c *Client) Tool(ctx context.Context, name string) (Tool, error) {
	return call[Tool](ctx, c, "GET", "/tools/"+url.PathEscape(name), nil)
}

// CallTool calls one tool. arguments is a JSON object.
func (c *Client) CallTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	return call[json.RawMessage](ctx, c, "POST", "/tools/"+url.PathEscape(name), arguments)
}

// Harnesses lists the contracts and what is adopted.
func (c *Client) Harnesses(ctx context.Context) (Page[Harness], error) {
	return call[Page[Harness]](ctx, c, "GET", "/harnesses", nil)
}

// Adopt copies a harness's tree into Sophia's own folder and witnesses it.
func (c *Client) Adopt(ctx context.Context, ask AdoptRequest) (Harness, error) {
	return call[Harness](ctx, c, "POST", "/harnesses", ask)
}
