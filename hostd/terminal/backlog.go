package terminal

import (
	"context"
	"sync"
	"time"

	"sophia/hostd/terminal/vt"
)

// DefaultBacklog is how much output is kept, in bytes: 256 KiB, from the
// specification.
const DefaultBacklog = 256 << 10

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
	kept   pieces
	now    *vt.Tracker // at the stream's end
	size   Size
	feed   *Feed
	closed bool
	exit   Exit
}

// NewBacklog returns an empty backlog of at most limit bytes for a terminal of
// the given size.
func NewBacklog(limit int, size Size) *Backlog {
	b := &Backlog{kept: newPieces(limit), now: vt.NewTracker(), size: size}
	b.now.OnQuery = b.query
	return b
}

// Write takes output of the PTY. It never fails and never waits.
func (b *Backlog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.write(p, b.now)
	if b.feed != nil && len(p) > 0 {
		b.feed.append(p)
	}
	return len(p), nil
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
	out, _ := b.replay(nil)
	return out
}

// replay appends modes and backlog to dst and returns the filter that goes on
// with what follows: what it holds back comes with its end.
func (b *Backlog) replay(dst []byte) ([]byte, vt.Filter) {
	dst = append(dst, b.kept.base(b.now).Preamble()...)
	f := vt.Filter{Drop: func(k vt.Kind, raw []byte) bool { return vt.Query(k, raw) || b.drop(k, raw) }}
	b.kept.each(func(p []byte) { dst = f.Append(dst, p) })
	if b.kept.lost {
		f = b.now.Filter()
	}
	f.Drop = b.drop
	return dst, f
}

func (b *Backlog) drop(k vt.Kind, raw []byte) bool { return !b.Clipboard && vt.Clipboard(k, raw) }

// Text is the backlog as a person would read it, without control sequences.
func (b *Backlog) Text() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var raw []byte
	b.kept.each(func(p []byte) { raw = append(raw, p...) })
	return vt.Plain(raw)
}

// Close says that no output follows, and how the harness ended. Feeds end when
// they are read to the end.
func (b *Backlog) Close(exit Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.exit = true, exit
	if b.feed != nil {
		b.feed.end()
	}
}

// A viewer that falls behind by burst bytes, or is sent more than that in a
// window, is given the present ten times a second in place of every byte:
// nobody reads two megabytes a second, and what showing them costs the machine
// would be taken from the agent. That is over as soon as no more than calm
// bytes come in a pause.
const (
	burst  = 512 << 10
	window = 250 * time.Millisecond
	calm   = 64 << 10
	pause  = 100 * time.Millisecond
)

// Feed is what one viewer is sent.
type Feed struct {
	b       *Backlog
	filter  vt.Filter
	pending []byte
	fresh   bool // the next is a snapshot
	flood   bool
	since   time.Time // beginning of the window
	count   int       // bytes in the window
	ready   chan struct{}
	over    chan struct{} // closed when nothing is worth a pause any more
	rest    *time.Timer   // of Next alone: the pause after what it gave last
}

// Attach returns the feed of a viewer, which begins with a snapshot. There is
// one at a time; another's feed ends.
func (b *Backlog) Attach() *Feed {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &Feed{b: b, fresh: true, ready: make(chan struct{}, 1), over: make(chan struct{})}
	if b.feed != nil {
		b.feed.end()
	}
	b.feed = f
	f.wake()
	if b.closed {
		f.end()
	}
	return f
}

// Detach ends the feed: queries are answered by the relay from now on.
func (f *Feed) Detach() {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.b.feed == f {
		f.b.feed = nil
	}
	f.end()
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
		if f.rest != nil {
			select {
			case <-f.rest.C:
			case <-f.over:
			case <-ctx.Done():
				return nil, false
			}
			f.rest = nil
		}
		f.b.mu.Lock()
		out, more = f.take(dst[:0])
		flood := f.flood
		f.b.mu.Unlock()
		if flood {
			f.rest = time.NewTimer(pause)
		}
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
		f.fresh = false
		dst, f.filter = f.b.replay(dst)
	} else {
		dst = append(dst, f.pending...)
		f.flood = false
	}
	f.pending = f.pending[:0]
	if f.b.closed {
		f.wake() // the next call finds the end
		return dst, len(dst) > 0
	}
	return dst, true
}

func (f *Feed) append(p []byte) {
	f.wake()
	if f.fresh {
		return
	}
	now := time.Now()
	if now.Sub(f.since) > window {
		f.since, f.count = now, 0
	}
	f.count += len(p)
	f.pending = f.filter.Append(f.pending, p)
	behind := len(f.pending)
	if behind > burst || f.count > burst || f.flood && behind > calm {
		f.fresh, f.flood, f.pending, f.count = true, true, nil, 0
	}
}

func (f *Feed) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// end is also called at the end of all output.
func (f *Feed) end() {
	select {
	case <-f.over:
	default:
		close(f.over)
	}
	f.wake()
}
