package launches

import "context"

// inHand is a held harness that is closed with its actor's life, wherever it is
// then: in a field, or in a message that nobody handles any more. nil holds
// nothing.
type inHand struct {
	held Held
	keep func() bool // false: the life is over, and the harness closed with it
}

func inHandOf(life context.Context, h Held) *inHand {
	if h == nil {
		return nil
	}
	return &inHand{h, context.AfterFunc(life, func() { h.Close() })} // it was only read
}

// giveAway returns the harness for somebody else to close, once; nil when there
// is none, or none any more.
func (h *inHand) giveAway() Held {
	if h == nil || !h.keep() {
		return nil
	}
	return h.held
}

func (h *inHand) close() {
	if held := h.giveAway(); held != nil {
		held.Close()
	}
}
