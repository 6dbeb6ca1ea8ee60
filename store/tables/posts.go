package tables

import (
	"time"

	"sophia/messages"
	"sophia/store"
)

// Post is a message between agents, by post-…. Channels are open to every
// connection of the owner.
type Post struct {
	ID      string         `json:"id"`
	Number  int64          `json:"number"` // 1, 2, 3, … over all channels: inbox order and high-water marks
	Channel string         `json:"channel"`
	Kind    string         `json:"kind"`
	Body    string         `json:"body"`
	Sender  messages.Actor `json:"sender"`             // derived by the server
	To      []string       `json:"to,omitempty"`       // connections; empty: everyone
	ReplyTo string         `json:"reply_to,omitempty"` // post-…
	Thread  string         `json:"thread,omitempty"`   // the first post of the thread
	At      time.Time      `json:"at"`
}

// Posts are shared among all connections.
var Posts = store.Define(store.Spec[Post]{
	ID: 30, Name: "posts", Noun: "post",
	Key:     func(r *Post) string { return r.ID },
	Visible: func(r *Post) store.Visibility { return store.Visibility{Shared: true} },
	Text:    func(r *Post) string { return r.Channel + " " + r.Body },
	Indexes: []store.Index[Post]{
		store.One("number", func(r *Post) store.Tuple { return store.Tuple{r.Number} }),
		store.One("channel", func(r *Post) store.Tuple { return store.Tuple{r.Channel, r.Number} }),
		store.One("thread", func(r *Post) store.Tuple { return store.Tuple{r.Thread, r.Number} }),
	},
})

// NextPost is the number for a new post. Within a write it is unique: there is
// one writer.
func NextPost(tx *store.Tx) (int64, error) {
	last, ok, err := Posts.First(tx, store.Query[Post]{Index: "number", Reverse: true})
	if err != nil || !ok {
		return 1, err
	}
	return last.Number + 1, nil
}

// ReadMark is how far a connection has read: everything up to High, and the
// single posts above it in Beyond.
type ReadMark struct {
	Connection string  `json:"connection"`
	High       int64   `json:"high"`
	Beyond     []int64 `json:"beyond,omitempty"` // sorted
}

// ReadMarks are kept by the daemon, by connection. For the owner alone.
var ReadMarks = store.Define(store.Spec[ReadMark]{
	ID: 31, Name: "read_marks", Noun: "read mark",
	Key: func(r *ReadMark) string { return r.Connection },
})
