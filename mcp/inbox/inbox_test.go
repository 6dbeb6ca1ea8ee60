package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/mcp/inbox"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

func who(id string) messages.Authority { return messages.Authority{Connection: id, Name: id} }

func post(t testing.TB, db *store.DB, from string, to ...string) tables.Post {
	t.Helper()
	var p tables.Post
	_, err := db.Write(context.Background(), store.System("test", ""), func(tx *store.Tx) error {
		n, err := tables.NextPost(tx)
		if err != nil {
			return err
		}
		p = tables.Post{ID: fmt.Sprintf("post-%06d", n), Number: n, Channel: "general", Kind: "note", Body: "hi", Sender: messages.Actor{Connection: from, Name: from}, To: to, At: tx.Now()}
		return tables.Posts.Insert(tx, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unread(t testing.TB, b *inbox.Inbox, id string) int {
	t.Helper()
	n, err := b.Unread(context.Background(), who(id))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInbox_LookingConsumesNothing(t *testing.T) {
	db, _ := storetest.InMemory(t)
	b := inbox.New(db, db)
	post(t, db, "conn-b")
	post(t, db, "conn-b", "conn-a")
	post(t, db, "conn-b", "conn-c") // not for a
	post(t, db, "conn-a")           // a's own
	for range 3 {
		page, err := b.List(who("conn-a"), inbox.Filter{Limit: 10})
		if err != nil || len(page.Items) != 2 || page.Total != 2 || unread(t, b, "conn-a") != 2 {
			t.Fatalf("%+v %v, %d unread", page, err, unread(t, b, "conn-a"))
		}
	}
}

func TestInbox_AMarkSweepsNothingUnseen(t *testing.T) {
	db, _ := storetest.InMemory(t)
	b := inbox.New(db, db)
	first := post(t, db, "conn-b")
	seen := post(t, db, "conn-b")
	unseen := post(t, db, "conn-b")
	if n, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, nil, seen.Number); err != nil || n != 2 {
		t.Fatalf("acked %d, %v", n, err)
	}
	page, _ := b.List(who("conn-a"), inbox.Filter{Limit: 10})
	if len(page.Items) != 1 || page.Items[0].ID != unseen.ID {
		t.Errorf("left: %+v", page.Items)
	}
	if _, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, nil, unseen.Number+1); problem.CodeOf(err) != "beyond_the_last_post" {
		t.Errorf("a mark beyond what exists: %v", err)
	}
	if n, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, []string{first.ID}, 0); err != nil || n != 0 {
		t.Errorf("a second time: %d, %v", n, err)
	}
	all, _ := b.List(who("conn-a"), inbox.Filter{Limit: 10, Read: true})
	if len(all.Items) != 3 || !all.Items[0].Read || all.Items[2].Read {
		t.Errorf("all: %+v", all.Items)
	}
}

func TestInbox_AnotherOnesPostCantBeMarked(t *testing.T) {
	db, _ := storetest.InMemory(t)
	b := inbox.New(db, db)
	mine, theirs := post(t, db, "conn-b", "conn-a"), post(t, db, "conn-b", "conn-c")
	if _, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, []string{mine.ID, theirs.ID}, 0); problem.CodeOf(err) != "not_found" {
		t.Errorf("got %v", err)
	}
	if n := unread(t, b, "conn-a"); n != 1 {
		t.Errorf("%d unread: half of it was done", n)
	}
}

// join makes the connection of somebody who joins now.
func join(t testing.TB, db *store.DB, id string, created time.Time) {
	t.Helper()
	_, err := db.Write(context.Background(), store.System("test", ""), func(tx *store.Tx) error {
		last, err := tables.LastPost(tx)
		if err != nil {
			return err
		}
		return tables.Connections.Insert(tx, messages.ConnectionRow{Authority: who(id), Created: created, LastPost: last})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Also where the clock was set back or forth between.
func TestInbox_WhatWasSaidBeforeAConnectionExistedIsNotNewsToIt(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		db, _ := storetest.InMemory(t)
		b := inbox.New(db, db)
		for range 300 {
			post(t, db, "conn-b")
		}
		join(t, db, "conn-a", time.Now().Add(off))
		if n := unread(t, b, "conn-a"); n != 0 {
			t.Errorf("clock off by %v: %d unread", off, n)
		}
		late := post(t, db, "conn-b")
		if page, err := b.List(who("conn-a"), inbox.Filter{}); err != nil || len(page.Items) != 1 || page.Items[0].ID != late.ID || unread(t, b, "conn-a") != 1 {
			t.Errorf("clock off by %v: %+v %v", off, page, err)
		}
	}
}

// A post that was undone gives its number to no other: marks of those who have
// read it would hide the next one.
func TestInbox_UndoingTheLastPostHidesNoOther(t *testing.T) {
	db, _ := storetest.InMemory(t)
	b := inbox.New(db, db)
	post(t, db, "conn-b")
	undone := post(t, db, "conn-b")
	if _, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, nil, undone.Number); err != nil {
		t.Fatal(err)
	}
	r := db.View(store.Owner())
	page, err := r.Mutations(store.MutationQuery{Table: "posts", Key: undone.ID})
	r.Close()
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if _, err := store.Revert(context.Background(), db, store.System("test", ""), page.Items[0].Seq, false); err != nil {
		t.Fatal(err)
	}
	join(t, db, "conn-c", time.Now())
	next := post(t, db, "conn-b")
	if next.Number <= undone.Number {
		t.Errorf("the next post has the number %d, after %d", next.Number, undone.Number)
	}
	for _, id := range []string{"conn-a", "conn-c"} {
		if n := unread(t, b, id); n != 1 {
			t.Errorf("%s has %d unread", id, n)
		}
	}
	if _, err := b.Ack(context.Background(), who("conn-a"), store.Cause{}, nil, next.Number); err != nil {
		t.Error(err)
	}
}

// A plain model: a set of read posts per connection.
func TestInbox_AgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db, _ := storetest.InMemory(t)
		b := inbox.New(db, db)
		people := []string{"conn-a", "conn-b", "conn-c"}
		person := rapid.SampledFrom(people)
		var posts []tables.Post
		read := map[string]map[int64]bool{"conn-a": {}, "conn-b": {}, "conn-c": {}}
		waiting := func(id string) (out []int64) {
			for _, p := range posts {
				if p.Sender.Connection != id && (len(p.To) == 0 || slices.Contains(p.To, id)) && !read[id][p.Number] {
					out = append(out, p.Number)
				}
			}
			return out
		}
		rt.Repeat(map[string]func(*rapid.T){
			"post": func(rt *rapid.T) {
				posts = append(posts, post(t, db, person.Draw(rt, "from"), rapid.SliceOfN(person, 0, 2).Draw(rt, "to")...))
			},
			"ack one": func(rt *rapid.T) {
				id := person.Draw(rt, "who")
				if w := waiting(id); len(w) > 0 {
					n := rapid.SampledFrom(w).Draw(rt, "post")
					if got, err := b.Ack(context.Background(), who(id), store.Cause{}, []string{posts[n-1].ID}, 0); err != nil || got != 1 {
						rt.Fatalf("acked %d, %v", got, err)
					}
					read[id][n] = true
				}
			},
			"ack up to": func(rt *rapid.T) {
				if len(posts) == 0 {
					return
				}
				id, upTo := person.Draw(rt, "who"), rapid.Int64Range(1, int64(len(posts))).Draw(rt, "up to")
				want := 0
				for _, n := range waiting(id) {
					if n <= upTo {
						want++
					}
				}
				if got, err := b.Ack(context.Background(), who(id), store.Cause{}, nil, upTo); err != nil || got != want {
					rt.Fatalf("acked %d, want %d, %v", got, want, err)
				}
				for n := int64(1); n <= upTo; n++ {
					read[id][n] = true
				}
			},
			"": func(rt *rapid.T) {
				for _, id := range people {
					want := waiting(id)
					page, err := b.List(who(id), inbox.Filter{})
					var got []int64
					for _, p := range page.Items {
						got = append(got, p.Number)
					}
					if err != nil || !slices.Equal(got, want) || page.Total != len(want) || unread(t, b, id) != len(want) {
						rt.Fatalf("%s: %v (total %d, unread %d), want %v, %v", id, got, page.Total, unread(t, b, id), want, err)
					}
				}
			},
		})
	})
}
