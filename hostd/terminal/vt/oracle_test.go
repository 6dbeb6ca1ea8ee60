package vt_test

import (
	"bytes"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	uv "github.com/charmbracelet/ultraviolet"
	emulator "github.com/charmbracelet/x/vt"
)

const rows, cols = 12, 40

// screen is all that a person would see of a stream, by an emulator that
// shares no code with this package.
func screen(stream []byte) string {
	e := emulator.NewEmulator(cols, rows)
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
	var b strings.Builder
	plain := fmt.Sprintf("%+v", uv.Style{})
	for y := range rows {
		for x := range cols {
			c := e.CellAt(x, y)
			if c == nil {
				continue
			}
			style := fmt.Sprintf("%+v", c.Style)
			if c.Content != " " || style != plain || c.Link.URL != "" {
				fmt.Fprintf(&b, "%d,%d %q", x, y, c.Content)
				if style != plain || c.Link.URL != "" {
					fmt.Fprintf(&b, " %s %s", style, c.Link.URL)
				}
				b.WriteByte('\n')
			}
		}
	}
	style, blink := e.CursorStyle()
	fmt.Fprintf(&b, "cursor %v hidden=%v style=%v,%v alt=%v", e.CursorPosition(), e.CursorHidden(), style, blink, e.IsAltScreen())
	return b.String()
}

// repaint makes what was on the screen before irrelevant.
const repaint = "\x1b[H\x1b[2J"

var (
	sgr = rapid.Custom(func(t *rapid.T) string {
		n := rapid.SliceOfN(rapid.SampledFrom([]string{"", "0", "1", "2", "3", "4", "4:3", "5", "7", "8", "9", "22", "23", "24", "25", "27", "28", "29", "31", "39", "42", "49", "95", "103", "38;5;7", "48;2;1;2;3", "38;2;9;8;7", "58;5;3", "59"}), 0, 4).Draw(t, "sgr")
		return "\x1b[" + strings.Join(n, ";") + "m"
	})
	words  = rapid.StringMatching(`[ -~äß€漢😀\r\n\t]{0,30}`)
	moves  = rapid.SampledFrom([]string{"\x1b[H", "\x1b[3;5H", "\x1b[2A", "\x1b[B", "\x1b[4C", "\x1b[2D", "\x1b[K", "\x1b[1K", "\x1b[J", "\x1b[2L", "\x1b[M", "\x1b[3P", "\x1b[2@", "\x1b[S", "\x1b[T", "\x1b[5X", "\x1b[10G", "\x1b[6d"})
	modes  = rapid.SampledFrom([]string{"\x1b[?7l", "\x1b[?7h", "\x1b[?2004h", "\x1b[?1000;1006h", "\x1b[?1000l", "\x1b[?1h", "\x1b=", "\x1b>", "\x1b[>1u", "\x1b[<u", "\x1b[?2026h", "\x1b[?2026l"})
	texts  = rapid.SampledFrom([]string{"\x1b]0;title\a", "\x1b]2;a;b\x1b\\", "\x1b]52;c;aGk=\a", "\x1bP1$r0m\x1b\\", "\x1b_Gq=2;AAAA\x1b\\"})
	asks   = rapid.SampledFrom([]string{"\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b[5n", "\x1b]10;?\x1b\\", "\x1b]11;?\a", "\x1b[>q", "\x1b[?u", "\x1b[?2026$p", "\x1b[18t", "\x1bP+q544e\x1b\\"})
	region = rapid.SampledFrom([]string{"\x1b[3;8r", "\x1b[r", "\x1b[1;5r", "\x1b[?25l", "\x1b[?25h", "\x1b[4 q", "\x1b[0 q", "\x1b]8;;http://x/\x1b\\", "\x1b]8;;\a", "\x1b(0", "\x1b(B", "\x0e", "\x0f", "\x1b)0"})
	alts   = rapid.SampledFrom([]string{"\x1b[?1049h", "\x1b[?1049l" + repaint})
)

// The main screen below an alternate one is not remembered: who leaves it
// paints again.
//
// stream is what a full-screen program might write. Margins, links, character sets and the cursor's looks
// don't come together with the alternate screen: the emulator keeps them for
// each screen, terminals once for both.
func stream(most int, extra ...*rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := []*rapid.Generator[string]{sgr, words, moves, modes, texts, words}
		parts = append(parts, rapid.SampledFrom([]*rapid.Generator[string]{region, alts}).Draw(t, "kind"))
		parts = append(parts, extra...)
		return strings.Join(rapid.SliceOfN(rapid.OneOf(parts...), 0, most).Draw(t, "stream"), "")
	})
}
