package importdoc

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSplit_CoversTheTextInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"", "# one", "## two", "```", "~~~", "#no", strings.Repeat("ä", 1500), strings.Repeat("word ", 900)}),
			rapid.StringN(0, 300, -1)), 0, 30).Draw(t, "lines")
		text := strings.ToValidUTF8(strings.Join(lines, "\n"), "?")
		at := 0
		for _, p := range split(text, rapid.Bool().Draw(t, "markdown")) {
			if p.start < at || p.end <= p.start || p.end-p.start > chunkMax {
				t.Fatalf("passage %+v after %d", p, at)
			}
			if strings.Trim(text[at:p.start], " \n\r\t") != "" {
				t.Fatalf("left out: %q", text[at:p.start])
			}
			if !utf8.ValidString(text[p.start:p.end]) {
				t.Fatalf("cut within a character: %q", text[p.start:p.end])
			}
			at = p.end
		}
		if strings.Trim(text[at:], " \n\r\t") != "" {
			t.Fatalf("left out at the end: %q", text[at:])
		}
	})
}
