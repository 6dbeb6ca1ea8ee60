package connections

import (
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

type idle struct{}

// connection is one life of a connection's actor: it opens a room, and shuts it
// when it was idle. There is one timer, set again when it fires too early,
// instead of one reset per call.
type connection struct {
	c     Config
	id    string
	rooms *sync.Map // connection → *room, of the lives that are up
	room  *room
}

func (n *connection) Receive(c *actor.Context) {
	switch c.Message().(type) {
	case actor.Started:
		n.room = &room{}
		n.room.last.Store(time.Now().UnixNano())
		n.rooms.Store(n.id, n.room)
		supervise.After(c, n.c.Idle, idle{})
	case idle:
		rest := n.c.Idle - time.Since(time.Unix(0, n.room.last.Load()))
		if rest > 0 || !n.room.shutIfEmpty() {
			supervise.After(c, max(rest, time.Second), idle{})
			return
		}
		supervise.Exit(c, nil)
	case actor.Stopped:
		if n.room != nil {
			n.room.shutNow()
			n.rooms.CompareAndDelete(n.id, n.room)
		}
	}
}
