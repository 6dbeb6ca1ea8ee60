package writer

import (
	"context"
	"errors"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages/problem"
	"sophia/store"
)

// ID is the actor's name in its tree.
const ID = "writer"

// maxGroup bounds how long the first of a group waits for the others' work.
const maxGroup = 256

// Grouper commits several writes at once. *store.DB is one.
type Grouper interface {
	WriteGroup(jobs []store.Job) []store.Outcome
}

// Spec is the actor as a child of a tree.
func Spec(db Grouper) supervise.Spec {
	return supervise.Spec{ID: ID, New: func() actor.Receiver { return &receiver{db: db} }, Restart: supervise.Permanent, Inbox: 4096}
}

// Writer is the actor's address as a store.Writer. It survives restarts.
type Writer struct{ to supervise.Lookup }

// New makes a Writer of the actor's address: tree.Lookup(writer.ID), or a path
// below it.
func New(to supervise.Lookup) Writer { return Writer{to} }

// Write implements store.Writer. When ctx ends while the write waits for its
// turn it is not done; once it runs, Write returns what became of it.
//
// Codes besides the write's own: store_busy (too many writes wait),
// store_unavailable (the writer is restarting; whether an accepted write was
// done is then unknown to the caller).
func (w Writer) Write(ctx context.Context, cause store.Cause, f func(*store.Tx) error) (store.Receipt, error) {
	v, err := w.to.Ask(context.WithoutCancel(ctx), store.Job{Ctx: ctx, Cause: cause, Do: f})
	switch {
	case errors.Is(err, supervise.ErrFull):
		return store.Receipt{}, problem.Wrap(err, "store_busy", "too many writes are waiting").WithHint("Try again in a moment.")
	case errors.Is(err, supervise.ErrDown):
		return store.Receipt{}, problem.Wrap(err, "store_unavailable", "the store's writer is restarting").
			WithHint("Look whether the write was done before trying again.")
	case err != nil:
		return store.Receipt{}, err
	}
	return v.(store.Receipt), nil
}

type waiting struct {
	job   store.Job
	reply supervise.Reply
}

// committed comes back when a group is on disk and answered.
type committed struct{}

type receiver struct {
	db    Grouper
	queue []waiting
	busy  bool
}

func (r *receiver) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case store.Job:
		r.queue = append(r.queue, waiting{m, supervise.ReplyTo(c)})
	case committed:
		r.busy = false
	case actor.Stopped:
		for _, w := range r.queue {
			w.reply.Send(problem.New("store_unavailable", "Sophia is stopping; this write was not done"))
		}
		r.queue = nil
		return
	default:
		return
	}
	if r.busy || len(r.queue) == 0 {
		return
	}
	r.busy = true
	n := min(len(r.queue), maxGroup)
	group := r.queue[:n:n]
	r.queue = append([]waiting(nil), r.queue[n:]...)
	db := r.db
	supervise.Go(c, func(context.Context) any {
		commit(db, group)
		return committed{}
	})
}

func commit(db Grouper, group []waiting) {
	jobs := make([]store.Job, len(group))
	for i, w := range group {
		jobs[i] = w.job
	}
	for i, out := range db.WriteGroup(jobs) {
		if out.Err != nil {
			group[i].reply.Send(out.Err)
		} else {
			group[i].reply.Send(out.Receipt)
		}
	}
}
