// Package inbox says which posts wait for a connection. Posts are in the store,
// and so is how far each connection has read: looking changes nothing, only an
// acknowledgement does.
//
// A post is for a connection when it was not its own, has a number after the
// last one that there was when the connection was minted, and is addressed to it
// or to everyone. Numbers and not times: clocks are set back.
//
// Imports: store, messages.
package inbox

import (
	"context"
	"slices"
	"sync"

	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// MaxCount is where counting stops: a count of MaxCount means that or more.
const MaxCount = 999

// Inbox answers for all connections. It is safe for concurrent use.
type Inbox struct {
	db     *store.DB
	writer store.Writer

	mu    sync.Mutex
	known map[string]count
}

type count struct {
	posts, marks uint64 // versions of the tables that it was counted at
	n            int
}

// New is an inbox over a store; w writes the read marks.
func New(db *store.DB, w store.Writer) *Inbox {
	return &Inbox{db: db, writer: w, known: map[string]count{}}
}

// maxKnown bounds the counts that are kept: a count can always be made again.
const maxKnown = 20_000

// Unread is how many posts wait, up to MaxCount. It is asked with every
// response, so it counts anew only when posts or marks have changed.
func (b *Inbox) Unread(_ context.Context, a messages.Authority) (int, error) {
	// The versions are read before the snapshot: a count is never taken for
	// newer than it is.
	posts, marks := b.db.Version(tables.Posts.Def()), b.db.Version(tables.ReadMarks.Def())
	b.mu.Lock()
	c, ok := b.known[a.Connection]
	b.mu.Unlock()
	if ok && c.posts == posts && c.marks == marks {
		return c.n, nil
	}
	r := b.db.View(store.Owner())
	defer r.Close()
	waiting, err := b.waiting(r, a.Connection, "", MaxCount)
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxKnown {
		clear(b.known)
	}
	b.known[a.Connection] = count{posts, marks, len(waiting)}
	return len(waiting), nil
}

// Filter is what of a connection's posts is asked for.
type Filter struct {
	Channel string // "" is all
	Read    bool   // also those that were acknowledged
	Limit   int
	Cursor  string
}

// Item is a post as its reader sees it.
type Item struct {
	tables.Post
	Read bool
}

// List is a page of a connection's posts, oldest first, and changes nothing.
func (b *Inbox) List(a messages.Authority, f Filter) (store.Page[Item], error) {
	r := b.db.View(store.Owner())
	defer r.Close()
	m, err := mark(r, a.Connection)
	if err != nil {
		return store.Page[Item]{}, err
	}
	since, err := minted(r, a.Connection)
	if err != nil {
		return store.Page[Item]{}, err
	}
	q := store.Query[tables.Post]{Index: "number", Limit: f.Limit, Cursor: f.Cursor, Bind: a.Connection + "\x00inbox\x00" + f.Channel,
		Where: func(p *tables.Post) bool {
			return forWhom(p, a.Connection, since) && (f.Channel == "" || p.Channel == f.Channel) && (f.Read || !isRead(m, p.Number))
		}}
	if !f.Read {
		q.From = store.Tuple{m.High + 1}
	} else {
		q.Bind += "\x00read"
	}
	page, err := tables.Posts.List(r, q)
	out := store.Page[Item]{Items: make([]Item, len(page.Items)), Total: page.Total, Cursor: page.Cursor}
	for i, p := range page.Items {
		out.Items[i] = Item{p, isRead(m, p.Number)}
	}
	return out, err
}

// Waiting are the unread posts, oldest first, up to limit.
func (b *Inbox) Waiting(a messages.Authority, channel string, limit int) ([]tables.Post, error) {
	r := b.db.View(store.Owner())
	defer r.Close()
	return b.waiting(r, a.Connection, channel, limit)
}

func (b *Inbox) waiting(r *store.Reader, connection, channel string, limit int) ([]tables.Post, error) {
	m, err := mark(r, connection)
	if err != nil {
		return nil, err
	}
	since, err := minted(r, connection)
	if err != nil {
		return nil, err
	}
	last, err := tables.LastPost(r)
	if err != nil {
		return nil, err
	}
	var out []tables.Post
	for from := max(m.High, since) + 1; from <= last; from += window { // in pages, so that a count stops early
		page, err := tables.Posts.List(r, store.Query[tables.Post]{Index: "number", From: store.Tuple{from}, To: store.Tuple{from + window}})
		if err != nil {
			return nil, err
		}
		for _, p := range page.Items {
			if forWhom(&p, connection, since) && !isRead(m, p.Number) && (channel == "" || p.Channel == channel) {
				if out = append(out, p); len(out) == limit {
					return out, nil
				}
			}
		}
	}
	return out, nil
}

const window = 256

func forWhom(p *tables.Post, connection string, since int64) bool {
	if p.Sender.Connection == connection || p.Number <= since {
		return false
	}
	return len(p.To) == 0 || slices.Contains(p.To, connection)
}

func isRead(m tables.ReadMark, n int64) bool {
	if n <= m.High {
		return true
	}
	_, found := slices.BinarySearch(m.Beyond, n)
	return found
}

func mark(s store.Source, connection string) (tables.ReadMark, error) {
	m, err := tables.ReadMarks.Get(s, connection)
	if problem.CodeOf(err) == "not_found" {
		return tables.ReadMark{Connection: connection}, nil
	}
	return m, err
}

// minted is the last post before the connection was made: what was said by then
// is not news to it.
func minted(s store.Source, connection string) (int64, error) {
	c, err := tables.Connections.Get(s, connection)
	if problem.CodeOf(err) == "not_found" { // the owner's portal has no row
		return 0, nil
	}
	return c.LastPost, err
}

// Ack marks posts as read: those named, and all up to the number upTo, which
// the reader has seen. It returns how many were unread before. A post that is
// not in this connection's inbox is an error, and then none is marked.
func (b *Inbox) Ack(ctx context.Context, a messages.Authority, cause store.Cause, ids []string, upTo int64) (acked int, err error) {
	cause.Scope = store.Owner() // read marks are the daemon's own
	_, err = b.writer.Write(ctx, cause, func(tx *store.Tx) error {
		acked = 0
		m, err := mark(tx, a.Connection)
		if err != nil {
			return err
		}
		since, err := minted(tx, a.Connection)
		if err != nil {
			return err
		}
		after := m
		after.Beyond = slices.Clone(m.Beyond)
		for _, id := range ids {
			p, err := tables.Posts.Get(tx, id)
			if err == nil && !forWhom(&p, a.Connection, since) {
				err = tables.Posts.NotFound(id)
			}
			if err != nil {
				return err
			}
			if i, found := slices.BinarySearch(after.Beyond, p.Number); !found && p.Number > after.High {
				after.Beyond = slices.Insert(after.Beyond, i, p.Number)
				acked++
			}
		}
		if upTo > m.High {
			last, err := tables.LastPost(tx)
			if err != nil {
				return err
			}
			if upTo > last {
				return problem.New("beyond_the_last_post", "no post has the number %d yet", upTo).
					WithHint("Pass the number of the last post that you have seen, so that nothing unseen is marked.")
			}
			rest, err := tables.Posts.List(tx, store.Query[tables.Post]{Index: "number", From: store.Tuple{m.High + 1}, To: store.Tuple{upTo + 1}})
			if err != nil {
				return err
			}
			for _, p := range rest.Items {
				if _, beyond := slices.BinarySearch(after.Beyond, p.Number); forWhom(&p, a.Connection, since) && !beyond {
					acked++
				}
			}
			after.High = upTo
		}
		for len(after.Beyond) > 0 && after.Beyond[0] <= after.High+1 {
			after.High = max(after.High, after.Beyond[0])
			after.Beyond = after.Beyond[1:]
		}
		if acked == 0 && after.High == m.High {
			return nil
		}
		return tables.ReadMarks.Put(tx, after)
	})
	return acked, err
}
