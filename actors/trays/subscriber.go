package trays

import (
	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
	"sophia/messages"
)

// Messages of a subscriber's actor.
type (
	snapshot struct{ open []messages.ApprovalRequest }
	publish  struct{ event messages.TrayEvent }
	fetch    struct{} // an Ask; the answer is []messages.TrayEvent
)

// subscriber keeps the events of one tray until it fetches them.
type subscriber struct {
	ready  bool // the snapshot has come; before that nothing is handed out
	early  []messages.TrayEvent
	queue  []messages.TrayEvent
	open   int  // events of the snapshot in queue; a long one is no sign of slowness
	told   bool // the first fetch was answered
	waiter *supervise.Reply
}

func newSubscriber() actor.Receiver { return &subscriber{} }

func (s *subscriber) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case snapshot:
		for i := range m.open {
			s.queue = append(s.queue, messages.TrayEvent{Kind: messages.TrayAsked, Request: &m.open[i]})
		}
		s.open = len(m.open)
		// What was published before the snapshot came may be older or newer than
		// it. Told after it, an answer still ends its request, and a request that
		// was answered meanwhile is followed by its answer.
		s.queue = append(s.queue, s.early...)
		s.ready, s.early = true, nil
		s.hand()
	case publish:
		if len(s.queue)+len(s.early)-s.open >= MaxQueue {
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
		reply := supervise.ReplyTo(c)
		s.waiter = &reply
		s.hand()
	}
}

// hand answers who waits, if there is something to say.
func (s *subscriber) hand() {
	if s.waiter == nil || !s.ready || len(s.queue) == 0 && s.told {
		return
	}
	s.waiter.Send(s.queue)
	s.waiter, s.queue, s.open, s.told = nil, nil, 0, true
}
