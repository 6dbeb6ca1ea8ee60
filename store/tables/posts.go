package tables

import (
	"time"

	"sophia/messages"
	"sophia/messages/problem"
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

// Given is the last number that a table's rows were given. It is not journaled,
// so that undoing a row gives its number to no other.
type Given struct {
	Table string `json:"table"`
	Last  int64  `json:"last"`
}

// Numbers are the numbers that were given, by table. For the owner alone.
var Numbers = store.Define(store.Spec[Given]{
	ID: 32, Name: "numbers", Noun: "number", Derived: true,
	Key: func(r *Given) string { return r.Table },
})

// LastPost is the last number that a post was given, 0 before the first.
func LastPost(s store.Source) (int64, error) {
	given, err := Numbers.Get(s, Posts.Def().Name())
	if problem.CodeOf(err) == "not_found" { // a store from before they were kept
		last, _, err := Posts.First(s, store.Query[Post]{Index: "number", Reverse: true})
		return last.Number, err
	}
	return given.Last, err
}

// NextPost takes the number for a new post, which no other ever had or gets.
func NextPost(tx *store.Tx) (n int64, err error) {
	err = tx.As(func() error {
		if n, err = LastPost(tx); err != nil {
			return err
		}
		n++
		return Numbers.Put(tx, Given{Table: Posts.Def().Name(), Last: n})
	})
	return n, err
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
