package terminal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	emulator "github.com/charmbracelet/x/vt"
	"pgregory.net/rapid"

	"sophia/hostd/terminal"
)

// screen is what a person sees, by an independent emulator.
func screen(stream []byte) string {
	e := emulator.NewEmulator(80, 24)
	done := make(chan struct{})
	go func() { // reads its answers, up to the last one; its Close would race with that
		defer close(done)
		var got []byte
		for buf := make([]byte, 256); !bytes.HasSuffix(got, []byte("last")); {
			n, err := e.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				return
			}
		}
	}()
	e.Write(stream)
	e.SendText("last")
	<-done
	plain := fmt.Sprintf("%+v", uv.Style{})
	var b strings.Builder
	for y := range 24 {
		for x := range 80 {
			if c := e.CellAt(x, y); c != nil {
				if style := fmt.Sprintf("%+v", c.Style); c.Content != " " || style != plain {
					fmt.Fprintf(&b, "%d,%d %q %s\n", x, y, c.Content, strings.TrimPrefix(style, plain))
				}
			}
		}
	}
	fmt.Fprintf(&b, "cursor %v hidden=%v alt=%v", e.CursorPosition(), e.CursorHidden(), e.IsAltScreen())
	return b.String()
}

// frame is one full repaint of a full-screen program.
var frame = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[H\x1b[2J")
	for range rapid.IntRange(1, 12).Draw(t, "lines") {
		fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[%sm%s", rapid.IntRange(1, 24).Draw(t, "row"), rapid.IntRange(1, 60).Draw(t, "col"),
			rapid.SampledFrom([]string{"", "1", "7", "38;5;99", "48;2;1;2;3", "4:3"}).Draw(t, "pen"), rapid.StringMatching(`[a-zé漢 ]{0,20}`).Draw(t, "text"))
	}
	b.WriteString("\x1b[?2026l")
	return b.String()
})

// A stream of frames, written in any pieces, replayed at any time from a
// backlog of any size that holds the last frame: the screen is the uncut one.
func TestBacklog_ReplayShowsTheUncutScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := rapid.SampledFrom([]string{"", "\x1b[?1049h", "\x1b[?25l", "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[>1u", "\x1b[5;9r"}).Draw(t, "setup")
		frames := rapid.SliceOfN(frame, 1, 12).Draw(t, "frames")
		b := terminal.NewBacklog(rapid.IntRange(2048, 16384).Draw(t, "limit"), terminal.Size{Rows: 24, Cols: 80})
		whole := []byte(setup + strings.Join(frames, ""))
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 4000).Draw(t, "piece"))
			b.Write(rest[:n])
			rest = rest[n:]
		}
		if got, want := screen(b.Snapshot()), screen(whole); got != want {
			t.Fatalf("replay shows\n%s\nwant\n%s", got, want)
		}
	})
}

// As long as nothing was dropped the replay is exact for every stream, also
// one that paints bit by bit, and wherever it stands.
func TestBacklog_ReplayOfAWholeStreamIsExact(t *testing.T) {
	piece := rapid.SampledFrom([]string{"word ", "\r\n", "\x1b[1m", "\x1b[m", "\x1b[3;7H", "\x1b[K", "\x1b[6n", "漢", "\x1b]0;t\a", "\x1b[?25l", "\x1b[2L", "\x1b[38;5;3m"})
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "stream"), "")
		b := terminal.NewBacklog(64<<10, terminal.Size{Rows: 24, Cols: 80})
		for i := range len(whole) {
			b.Write([]byte{whole[i]})
		}
		if got, want := screen(b.Snapshot()), screen([]byte(whole)); got != want {
			t.Fatalf("replay shows\n%s\nwant\n%s", got, want)
		}
	})
}

// A viewer that attaches in mid-stream sees what one sees that was there from
// the beginning, wherever the stream was cut.
func TestFeed_AttachAnywhereShowsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := []byte("\x1b[?1049h" + strings.Join(rapid.SliceOfN(frame, 1, 8).Draw(t, "frames"), ""))
		at := rapid.IntRange(0, len(whole)).Draw(t, "attach at")
		b := terminal.NewBacklog(64<<10, terminal.Size{Rows: 24, Cols: 80})
		b.Write(whole[:at])
		f := b.Attach()
		var saw []byte
		fresh := true // Next would wait for more
		for rest := whole[at:]; ; {
			if fresh && rapid.Bool().Draw(t, "reads") {
				out, _ := f.Next(t.Context(), nil)
				saw = append(saw, out...)
				fresh = false
			}
			if len(rest) == 0 {
				break
			}
			n := min(len(rest), rapid.IntRange(1, 300).Draw(t, "piece"))
			b.Write(rest[:n])
			rest, fresh = rest[n:], len(rest[:n]) > 0 && complete(rest[:n])
		}
		b.Close(terminal.Exit{})
		for {
			out, more := f.Next(t.Context(), nil)
			saw = append(saw, out...)
			if !more {
				break
			}
		}
		if got, want := screen(saw), screen(whole); got != want {
			t.Fatalf("the viewer sees\n%s\nwant\n%s", got, want)
		}
	})
}

// complete is true for a piece that shows something for certain: a feed holds
// back a sequence that is not whole yet.
func complete(piece []byte) bool {
	return strings.Contains(string(piece), "\x1b[?2026l")
}

func TestBacklog_KeepsTheNewestAndItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(8<<10, 64<<10).Draw(t, "limit")
		b := terminal.NewBacklog(limit, terminal.Size{Rows: 24, Cols: 80})
		var all strings.Builder
		for i := range rapid.IntRange(1, 200).Draw(t, "writes") {
			s := fmt.Sprintf("%d:%s\n", i, strings.Repeat("x", rapid.IntRange(0, 2000).Draw(t, "n")))
			all.WriteString(s)
			b.Write([]byte(s))
		}
		text := string(b.Text())
		if len(text) > limit || !strings.HasSuffix(all.String(), text) {
			t.Fatalf("%d bytes kept of a limit of %d, a suffix: %v", len(text), limit, strings.HasSuffix(all.String(), text))
		}
		if len(text) < min(all.Len(), limit-8<<10) {
			t.Fatalf("only %d bytes kept", len(text))
		}
	})
}

func TestBacklog_UnendingStringIsBounded(t *testing.T) {
	b := terminal.NewBacklog(16<<10, terminal.Size{Rows: 24, Cols: 80})
	b.Write([]byte("shown\x1b]2;"))
	for range 100 {
		b.Write([]byte(strings.Repeat("t", 4096)))
	}
	b.Write([]byte("\aafter"))
	if got := string(b.Text()); got != "after" {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
}

func BenchmarkBacklog(b *testing.B) {
	line := []byte(strings.Repeat("line 0000 "+strings.Repeat("x", 60)+"\r\n", 900))
	log := terminal.NewBacklog(terminal.DefaultBacklog, terminal.Size{Rows: 24, Cols: 80})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		log.Write(line)
	}
}
