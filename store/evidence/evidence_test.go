package evidence_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
	"sophia/store/evidence"
)

func TestCheck_OnlyAVerbatimQuoteIsEvidence(t *testing.T) {
	text := "The lease ends\nafter 3600 seconds. Café rules: the lease ends."
	if at, n, err := evidence.Check(text, "3600 seconds"); err != nil || text[at:at+12] != "3600 seconds" || n != 1 {
		t.Fatalf("%d, %d, %v", at, n, err)
	}
	for quote, want := range map[string][2]string{
		"":                       {"quote_empty", "Copy"},
		"  \n":                   {"quote_empty", "Copy"},
		strings.Repeat("ä", 301): {"quote_too_long", "only the words"},
		"The lease ends after":   {"quote_not_found", "white space"},
		"Cafe\u0301 rules":       {"quote_not_found", "Unicode"},
		"the Lease ends after":   {"quote_not_found", "case"},
		"the lease never ends":   {"quote_not_found", "Read the source"},
		"3600  seconds":          {"quote_not_found", "white space"},
	} {
		_, _, err := evidence.Check(text, quote)
		if problem.CodeOf(err) != want[0] || !strings.Contains(problem.Of(err).Hint, want[1]) {
			t.Errorf("%q: %v, hint %q", quote, err, problem.Of(err).Hint)
		}
	}
	if _, _, err := evidence.Check(strings.Repeat("ä", 400), strings.Repeat("ä", 300)); err != nil {
		t.Errorf("300 characters of two bytes: %v", err)
	}
}

func TestCheck_AnyPieceOfTheTextIsEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 400, -1).Draw(t, "text")
		from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, min(len(text), from+200)).Draw(t, "to")
		quote := text[from:to]
		at, _, err := evidence.Check(text, quote)
		if strings.TrimSpace(quote) == "" {
			return
		}
		if err != nil || text[at:at+len(quote)] != quote || at > from {
			t.Fatalf("%d, %v", at, err)
		}
	})
}
