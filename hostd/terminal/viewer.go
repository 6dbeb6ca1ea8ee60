package terminal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"sophia/actors/supervise"
	"sophia/hostd/terminal/vt"
)

// viewer is who is attached. It types at its own terminal and is shown output
// there, or else both are frames. Its end is the same either way: the modes are
// taken back where it looks, and then it is told.
type viewer struct {
	frames  *Port
	glass   *glass // its terminal; nil: it did not come
	feed    *Feed
	keys    leaver
	life    context.Context // the actor's
	release func() bool     // of the end of that life
	back    chan struct{}   // it has said something: it may have been away before
	typing  context.Context // until it parts
	cancel  context.CancelFunc
	cut     atomic.Bool // given up: its end is not one in order
}

func newViewer(life context.Context, frames *Port, glass *glass, feed *Feed, h *Hello) *viewer {
	v := &viewer{frames: frames, glass: glass, feed: feed, life: life, back: make(chan struct{}, 1), keys: leaver{Leave: h.Leave}}
	v.release = context.AfterFunc(life, v.close)
	v.typing, v.cancel = context.WithCancel(life)
	return v
}

func (v *viewer) hangUp() {
	v.release()
	v.close()
}

func (v *viewer) close() {
	v.cut.Store(true)
	if v.glass != nil {
		v.glass.Close() // first: who sees the connection's end has its terminal to itself
	}
	v.frames.Close()
}

// part ends the viewer in order: what is being written to it may still be, for
// a while.
func (v *viewer) part() {
	v.cancel()
	v.feed.Detach()
	limit := time.Now().Add(leaveTime)
	v.frames.SetWriteDeadline(limit)
	if v.glass != nil {
		v.glass.SetWriteDeadline(limit)
	}
}

func (v *viewer) show(p []byte) error {
	if v.glass != nil {
		_, err := v.glass.Write(p)
		return err
	}
	for len(p) > 0 {
		n := min(len(p), MaxFrame)
		if err := WriteFrame(v.frames, FrameOutput, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// The window's title is kept on the viewer's terminal's own stack meanwhile.
const (
	pushTitle = "\x1b[22;0t"
	popTitle  = "\x1b[23;0t\r\n"
)

// send writes output until the end, and takes the modes back. A viewer that does
// not read blocks this worker and nothing else.
func (r *relay) send(v *viewer) {
	undo := v.stream()
	if v.cut.Load() || v.show(undo) != nil {
		return
	}
	if exit, over := v.feed.Exit(); over {
		b, _ := json.Marshal(exit)
		v.tell(FrameExit, b, r.Told)
		return
	}
	v.tell(FrameLeft, nil, nil)
}

// stream writes output until there is no more, or the viewer can't be written to,
// and returns what takes back the modes that it set where the viewer looks.
func (v *viewer) stream() (undo []byte) {
	out, more := v.feed.Next(v.life, nil) // what is asked from here on, the viewer's terminal answers
	if WriteFrame(v.frames, FrameWelcome, nil) != nil {
		return nil
	}
	shown := vt.NewTracker()
	follow := func(out []byte) error {
		shown.Write(out)
		if now := append(shown.Undo(), popTitle...); !bytes.Equal(now, undo) {
			undo = now
			return WriteFrame(v.frames, FrameUndo, undo)
		}
		return nil
	}
	if follow(nil) != nil || v.show([]byte(pushTitle)) != nil {
		return undo
	}
	for {
		if len(out) > 0 && (follow(out) != nil || v.show(out) != nil) || !more {
			return undo
		}
		out, more = v.feed.Next(v.life, out)
	}
}

// tell says the last frame. A viewer that was killed can't be told, and has left
// its terminal raw: some shells read no line from one that is.
func (v *viewer) tell(t Type, p []byte, told func()) {
	if WriteFrame(v.frames, t, p) == nil {
		if told != nil {
			told()
		}
		return
	}
	if v.glass == nil || v.glass.line == nil {
		return
	}
	_ = v.glass.Control(func(fd int) {
		if l := (line{fd, *v.glass.line}); l.abandoned() {
			l.restore()
		}
	})
}

// receive takes sizes, and the keystrokes of a viewer whose terminal did not
// come, until the viewer ends or breaks the protocol.
func (r *relay) receive(v *viewer, self *supervise.Ref) {
	var buf []byte
	frames := bufio.NewReaderSize(v.frames, 1<<10) // a keystroke in one read
	for {
		t, p, err := ReadFrame(frames, &buf, inputSize)
		switch {
		case err != nil:
			return
		case t == FrameInput && v.glass == nil:
			if !r.typed(v, p) {
				return
			}
		case t == FrameResize:
			size, err := DecodeSize(p)
			if err != nil || self.Send(resized{v, size}) != nil {
				return
			}
			select {
			case v.back <- struct{}{}:
			default: // known
			}
		default:
			return
		}
	}
}

// listen takes keystrokes from the viewer's terminal until they detach it, or it
// is closed. What is typed while the viewer is away is its shell's, until it says
// itself that it is back: it may also be about to end.
func (r *relay) listen(v *viewer) {
	buf := make([]byte, 4<<10)
	for {
		n, err := v.glass.ReadIf(buf, v.glass.viewers)
		if err == errNotNow {
			select {
			case <-v.back:
				continue
			case <-v.typing.Done():
				return
			}
		}
		if err != nil || !r.typed(v, buf[:n]) {
			return
		}
	}
}

// typed forwards what was typed at once; the detach keys end that.
func (r *relay) typed(v *viewer, p []byte) (stays bool) {
	forward, detach := v.keys.typed(p)
	if len(forward) > 0 && r.Screen.Write(v.typing, forward) != nil {
		return false
	}
	return !detach
}
