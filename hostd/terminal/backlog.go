package terminal

import (
	"context"
	"sync"

	"sophia/hostd/terminal/vt"
)

// DefaultBacklog is how much output is kept, in bytes: 256 KiB, from the
// specification.
const DefaultBacklog = 256 << 10

// dropAtLeast is the smallest frame that is dropped from the ring: dropping
// exactly what a write needs would cut the ring at each write.
const dropAtLeast = 4 << 10

// Backlog keeps the newest output and the modes in force where it begins.
// Writing never waits for a reader. It outlives the actors around it.
type Backlog struct {
	// Answer, if set, is called with what to type into the PTY while nobody is
	// attached to answer a query. It must not block.
	Answer func(s string)
	// Clipboard lets OSC 52 through to viewers; off by default: whoever controls
	// the agent's output could else write the viewer's clipboard.
	Clipboard bool

	mu     sync.Mutex
	ring   ring
	base   *vt.Tracker // at the ring's beginning
	now    *vt.Tracker // at its end
	size   Size
	feed   *Feed
	closed bool
	exit   Exit
}

// NewBacklog returns an empty backlog of at most limit bytes for a terminal of
// the given size.
func NewBacklog(limit int, size Size) *Backlog {
	b := &Backlog{ring: ring{buf: make([]byte, 0, min(limit, 16<<10)), limit: limit}, base: vt.NewTracker(), now: vt.NewTracker(), size: size}
	b.now.OnQuery = b.query
	return b
}

// Write takes output of the PTY. It never fails and never waits.
func (b *Backlog) Write(p []byte) (int, error) {
	n := len(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Write(p)
	if over := b.ring.len() + len(p) - b.ring.limit; over > 0 {
		b.drop(max(over, dropAtLeast))
	}
	if b.ring.len() == 0 { // the stream is cut in p, or in a sequence that is longer than the ring
		p = b.skip(p)
	}
	b.ring.append(p)
	if b.feed != nil {
		b.feed.append(p, b)
	}
	return n, nil
}

// drop takes the oldest n bytes and as many more as it needs to end where the
// stream may be cut.
func (b *Backlog) drop(n int) {
	b.ring.drop(min(n, b.ring.len()), b.base.Write)
	for !b.cut() && b.ring.len() > 0 {
		b.ring.drop(1, b.base.Write)
	}
}

// skip passes over the part of p that can't be kept and returns the rest.
func (b *Backlog) skip(p []byte) []byte {
	if n := len(p) - b.ring.limit; n > 0 {
		b.base.Write(p[:n])
		p = p[n:]
	}
	for len(p) > 0 && !b.base.Ground() {
		b.base.Write(p[:1])
		p = p[1:]
	}
	return p
}

// cut: never inside a sequence or a character, nor within a synchronized
// update while that is short enough to be kept whole.
func (b *Backlog) cut() bool {
	return b.base.Ground() && (!b.base.Synchronized() || b.ring.len() < b.ring.limit/2)
}

func (b *Backlog) query(k vt.Kind, raw []byte) {
	if b.feed != nil || b.Answer == nil {
		return // the viewer's terminal answers
	}
	if s := (vt.Terminal{Rows: b.size.Rows, Cols: b.size.Cols, Version: "sophia"}).Answer(k, raw, b.now); s != "" {
		b.Answer(s)
	}
}

// Resize says the PTY's new size, for answers.
func (b *Backlog) Resize(s Size) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = s
}

// Snapshot is what brings a fresh terminal to the present: modes, then the
// backlog without its queries, which would be answered a second time.
func (b *Backlog) Snapshot() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snapshot()
}

func (b *Backlog) snapshot() []byte {
	out := b.base.Preamble()
	f := vt.Filter{Drop: func(k vt.Kind, raw []byte) bool {
		return vt.Query(k, raw) || !b.Clipboard && vt.Clipboard(k, raw)
	}}
	b.ring.each(func(p []byte) { out = f.Append(out, p) })
	return out
}

// Text is the backlog as a person would read it, without control sequences.
func (b *Backlog) Text() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var raw []byte
	b.ring.each(func(p []byte) { raw = append(raw, p...) })
	return vt.Plain(raw)
}

// Close says that no output follows, and how the harness ended. Feeds end when
// they are read to the end.
func (b *Backlog) Close(exit Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.exit = true, exit
	if b.feed != nil {
		b.feed.wake()
	}
}

// maxPending is how far a viewer may fall behind, in bytes, before it is given
// a snapshot of the present in place of what it missed.
const maxPending = 1 << 20

// Feed is what one viewer is sent.
type Feed struct {
	b       *Backlog
	filter  vt.Filter
	pending []byte
	fresh   bool // the next is a snapshot
	ready   chan struct{}
}

// Attach returns the feed of a viewer, which begins with a snapshot. There is
// one at a time; another's feed ends.
func (b *Backlog) Attach() *Feed {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &Feed{b: b, fresh: true, ready: make(chan struct{}, 1)}
	if b.feed != nil {
		b.feed.wake()
	}
	b.feed = f
	f.wake()
	return f
}

// Detach ends the feed: queries are answered by the relay from now on.
func (f *Feed) Detach() {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.b.feed == f {
		f.b.feed = nil
	}
	f.wake()
}

// Exit is how the harness ended, once it has.
func (f *Feed) Exit() (Exit, bool) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	return f.b.exit, f.b.closed
}

// Next waits for output and returns all of it, appended to dst[:0]. At the end
// of all output, or after Detach, more is false.
func (f *Feed) Next(ctx context.Context, dst []byte) (out []byte, more bool) {
	for {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return nil, false
		}
		f.b.mu.Lock()
		out, more = f.take(dst[:0])
		f.b.mu.Unlock()
		if len(out) > 0 || !more {
			return out, more
		}
	}
}

func (f *Feed) take(dst []byte) ([]byte, bool) {
	if f.b.feed != f {
		return nil, false
	}
	if f.fresh {
		f.fresh, f.pending = false, f.pending[:0]
		// Sequences that are not complete yet go on in what follows: this filter
		// has seen them, so what it holds back comes with their end.
		f.filter = vt.Filter{Drop: f.drop}
		dst = append(dst, f.b.base.Preamble()...)
		replay := vt.Filter{Drop: func(k vt.Kind, raw []byte) bool { return vt.Query(k, raw) || f.drop(k, raw) }}
		f.b.ring.each(func(p []byte) { dst = replay.Append(dst, p) })
		f.filter = replay
		f.filter.Drop = f.drop
	} else {
		dst = append(dst, f.pending...)
		f.pending = f.pending[:0]
	}
	if f.b.closed {
		f.wake() // the next call finds the end
		return dst, len(dst) > 0
	}
	return dst, true
}

func (f *Feed) drop(k vt.Kind, raw []byte) bool { return !f.b.Clipboard && vt.Clipboard(k, raw) }

func (f *Feed) append(p []byte, b *Backlog) {
	if !f.fresh {
		f.pending = f.filter.Append(f.pending, p)
		if len(f.pending) > maxPending {
			f.fresh, f.pending = true, nil
		}
	}
	f.wake()
}

func (f *Feed) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}
