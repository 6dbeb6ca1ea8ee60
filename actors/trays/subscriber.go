package trays

import (
	"slices"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
)

// Messages of a subscriber's actor.
type (
	snapshot struct{ open []messages.ApprovalRequest }
	publish  struct{ event messages.TrayEvent }
	// fetch is an Ask; the answer is a batch. It says what has arrived so far,
	// so that an answer that nobody waited for any more is given again.
	fetch struct {
		got   uint64
		first bool // nothing has arrived yet; an empty batch is an answer too
	}
	batch struct {
		events []messages.TrayEvent
		last   uint64 // number of the last of them
	}
)

// subscriber keeps the events of one tray until it has fetched them.
type subscriber struct {
	ready  bool // the snapshot has come; before that nothing is handed out
	early  []messages.TrayEvent
	queue  []messages.TrayEvent
	before uint64 // events that have been fetched; queue follows on them
	open   uint64 // events of the snapshot; a long one is no sign of slowness
	waiter *supervise.Reply
	first  bool // of the fetch that waits
}

func newSubscriber() actor.Receiver { return &subscriber{} }

func (s *subscriber) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case snapshot:
		if s.ready {
			return
		}
		for i := range m.open {
			s.queue = append(s.queue, messages.TrayEvent{Kind: messages.TrayAsked, Request: &m.open[i]})
		}
		// What was published before the snapshot came may be older or newer than
		// it. Told after it, an answer still ends its request, and a request that
		// was answered meanwhile is followed by its answer.
		s.open = uint64(len(m.open))
		s.queue = append(s.queue, s.early...)
		s.ready, s.early = true, nil
		s.hand()
	case publish:
		if s.waiting() >= MaxQueue {
			supervise.Exit(c, errSlow)
			return
		}
		if !s.ready {
			s.early = append(s.early, m.event)
			return
		}
		s.queue = append(s.queue, m.event)
		s.hand()
	case fetch:
		if m.got > s.before {
			s.queue = slices.Clone(s.queue[m.got-s.before:])
			s.before = m.got
		}
		reply := supervise.ReplyTo(c)
		s.waiter, s.first = &reply, m.first
		s.hand()
	}
}

// waiting is how many events that came after the snapshot wait.
func (s *subscriber) waiting() int {
	total := s.before + uint64(len(s.queue)+len(s.early))
	return int(total - max(s.before, s.open))
}

// hand answers who waits, if there is something to say.
func (s *subscriber) hand() {
	if s.waiter == nil || !s.ready || len(s.queue) == 0 && !s.first {
		return
	}
	s.waiter.Send(batch{events: slices.Clone(s.queue), last: s.before + uint64(len(s.queue))})
	s.waiter = nil
}
