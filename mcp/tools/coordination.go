package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// PostRow is a post as tools return it.
type PostRow struct {
	ID      string    `json:"id"`
	Number  int64     `json:"number" jsonschema:"rises with each post; a high-water mark for ack_messages"`
	Channel string    `json:"channel"`
	Kind    string    `json:"kind"`
	Body    string    `json:"body"`
	From    string    `json:"from" jsonschema:"display name of the sender"`
	FromID  string    `json:"from_id" jsonschema:"connection of the sender"`
	To      []string  `json:"to,omitempty" jsonschema:"connections; absent: everyone"`
	ReplyTo string    `json:"reply_to,omitempty"`
	Thread  string    `json:"thread,omitempty"`
	At      time.Time `json:"at"`
	Read    bool      `json:"read"`
}

func postRow(p inbox.Item) PostRow {
	return PostRow{ID: p.ID, Number: p.Number, Channel: p.Channel, Kind: p.Kind, Body: p.Body, From: p.Sender.Name, FromID: p.Sender.Connection,
		To: p.To, ReplyTo: p.ReplyTo, Thread: p.Thread, At: p.At, Read: p.Read}
}

type postIn struct {
	Channel string   `json:"channel,omitempty" jsonschema:"by convention arc:<slug>, branch:<name> or general" default:"general" min:"1" max:"100"`
	Kind    string   `json:"kind,omitempty" enum:"note,question,answer,status,handoff,alert" default:"note"`
	Body    string   `json:"body" jsonschema:"what to say, Markdown" min:"1" max:"20000"`
	To      []string `json:"to,omitempty" jsonschema:"connection ids or display names; leave out for everyone" max:"20"`
	ReplyTo string   `json:"reply_to,omitempty" jsonschema:"id of the post that this answers"`
}

type postOut struct {
	ID      string    `json:"id"`
	Number  int64     `json:"number"`
	Channel string    `json:"channel"`
	Thread  string    `json:"thread,omitempty"`
	At      time.Time `json:"at"`
}

type inboxIn struct {
	Channel     string `json:"channel,omitempty" jsonschema:"only this channel"`
	SummaryOnly bool   `json:"summary_only,omitempty" jsonschema:"grouped counts instead of posts"`
	IncludeRead bool   `json:"include_read,omitempty" jsonschema:"also those that were acknowledged"`
	Limit       int    `json:"limit,omitempty" default:"20" min:"1" max:"100"`
	Cursor      string `json:"cursor,omitempty"`
}

type inboxOut struct {
	registry.Page[PostRow]
	Groups    []inboxGroup `json:"groups,omitempty" jsonschema:"with summary_only: unread posts by channel, kind and sender"`
	HighWater int64        `json:"high_water" jsonschema:"number of the last post shown; pass it to ack_messages as up_to"`
}

type inboxGroup struct {
	Channel string `json:"channel"`
	Kind    string `json:"kind"`
	From    string `json:"from"`
	Unread  int    `json:"unread"`
}

type ackIn struct {
	IDs  []string `json:"ids,omitempty" jsonschema:"posts to mark as read" max:"1000"`
	UpTo int64    `json:"up_to,omitempty" jsonschema:"mark every post up to this number: the high_water that read_inbox gave" min:"1"`
}

type ackOut struct {
	Acked  int `json:"acked" jsonschema:"how many were unread before"`
	Unread int `json:"unread"`
}

// Coordination are the tools through which agents talk to each other.
func Coordination(db *store.DB, w store.Writer, box *inbox.Inbox) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{
			Name: "post_message", Group: registry.Coordination, Scope: registry.Unscoped, Core: true,
			Summary:     "Post a message to other agents",
			Description: "Posts to a channel that every agent of this owner can read; with `to`, into the inbox of some. The sender is derived from your connection.",
			Effects:     registry.Effects{Traffic: []string{"posts"}},
		}, func(ctx context.Context, c *registry.Call, in postIn) (postOut, error) {
			return post(ctx, db, w, c, in)
		}),
		registry.Define(registry.Spec{
			Name: "read_inbox", Group: registry.Coordination, Scope: registry.Unscoped, Core: true, Code: true,
			Summary:     "Read the posts that wait for you",
			Description: "Unread posts, oldest first. Reading marks nothing as read: use ack_messages. summary_only gives grouped counts for triage.",
			Effects:     registry.Effects{Reads: []string{"posts", "read_marks"}},
			Compact:     []string{"number", "channel", "kind", "from", "body"},
		}, func(_ context.Context, c *registry.Call, in inboxIn) (inboxOut, error) { return readInbox(box, c, in) }),
		registry.Define(registry.Spec{
			Name: "ack_messages", Group: registry.Coordination, Scope: registry.Unscoped, Core: true, Code: true, Idempotent: true,
			Summary:     "Mark posts as read",
			Description: "Takes explicit ids, or up_to for everything up to a post that you have seen.",
			Effects:     registry.Effects{Traffic: []string{"read_marks"}},
		}, func(ctx context.Context, c *registry.Call, in ackIn) (ackOut, error) {
			if len(in.IDs) == 0 && in.UpTo == 0 {
				return ackOut{}, problem.New("nothing_to_acknowledge", "neither ids nor up_to is given").WithHint("Pass ids, or the high_water of read_inbox as up_to.")
			}
			acked, err := box.Ack(ctx, c.Authority, cause(c), in.IDs, in.UpTo)
			if err != nil {
				return ackOut{}, err
			}
			unread, err := box.Unread(ctx, c.Authority)
			return ackOut{acked, unread}, err
		}),
	}
}

// cause is what the journal keeps of a call's writes.
func cause(c *registry.Call) store.Cause {
	return store.Cause{Actor: c.Actor(), Scope: store.ScopeOf(c.Authority.Scope), Call: c.ID, Tool: c.Tool}
}

func post(ctx context.Context, db *store.DB, w store.Writer, c *registry.Call, in postIn) (postOut, error) {
	to, err := recipients(db, in.To)
	if err != nil {
		return postOut{}, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails (Go 1.24)
	p := tables.Post{ID: "post-" + hex.EncodeToString(id[:]), Channel: in.Channel, Kind: in.Kind, Body: in.Body, Sender: c.Actor(), To: to, ReplyTo: in.ReplyTo}
	_, err = w.Write(ctx, cause(c), func(tx *store.Tx) error {
		p := &p
		if in.ReplyTo != "" {
			parent, err := tables.Posts.Get(tx, in.ReplyTo)
			if err != nil {
				return err
			}
			p.Thread = cmp.Or(parent.Thread, parent.ID)
		}
		n, err := tables.NextPost(tx)
		if err != nil {
			return err
		}
		p.Number, p.At = n, tx.Now()
		return tables.Posts.Insert(tx, *p)
	})
	return postOut{p.ID, p.Number, p.Channel, p.Thread, p.At}, err
}

// recipients turns ids and display names into ids. A name that is nobody's is
// an error: a message that reaches nobody must not look sent.
func recipients(db *store.DB, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	r := db.View(store.Owner())
	defer r.Close()
	all, err := tables.Connections.All(r, store.Query[messages.ConnectionRow]{Where: func(c *messages.ConnectionRow) bool { return c.Revoked == nil }})
	if err != nil {
		return nil, err
	}
	var out, valid []string
	for _, c := range all {
		valid = append(valid, c.Connection+" ("+c.Name+")")
	}
	for _, n := range names {
		found := false
		for _, c := range all {
			if c.Connection == n || c.Name == n { // a name that two have reaches both
				found = true
				if !slices.Contains(out, c.Connection) {
					out = append(out, c.Connection)
				}
			}
		}
		if !found {
			return nil, problem.New("unknown_recipient", "no agent is called %q", n).WithValid(valid...).WithHint("Use a connection id or a display name, or leave `to` out for everyone.")
		}
	}
	return out, nil
}

func readInbox(box *inbox.Inbox, c *registry.Call, in inboxIn) (inboxOut, error) {
	var out inboxOut
	if in.SummaryOnly {
		waiting, err := box.Waiting(c.Authority, in.Channel, inbox.MaxCount)
		out.Total = len(waiting)
		for _, p := range waiting {
			g := inboxGroup{p.Channel, p.Kind, p.Sender.Name, 1}
			i := slices.IndexFunc(out.Groups, func(o inboxGroup) bool {
				return o.Channel == g.Channel && o.Kind == g.Kind && o.From == g.From
			})
			if i < 0 {
				out.Groups = append(out.Groups, g)
			} else {
				out.Groups[i].Unread++
			}
		}
		return out, err
	}
	page, err := box.List(c.Authority, inbox.Filter{Channel: in.Channel, Read: in.IncludeRead, Limit: in.Limit, Cursor: in.Cursor})
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, p := range page.Items {
		out.Items = append(out.Items, postRow(p))
		out.HighWater = p.Number
	}
	return out, err
}
