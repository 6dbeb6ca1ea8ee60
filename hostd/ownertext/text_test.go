package ownertext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownertext"
	"sophia/messages/problem"
)

// A diff tells both texts, and keeps what is common in order.
func TestDiff_TellsBothTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", " a"}), 0, 12).Draw(t, "lines"), "\n")
		})
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		var was, is []string
		for _, e := range ownertext.Diff(before, after) {
			if e.Kind != '+' {
				was = append(was, e.Line)
			}
			if e.Kind != '-' {
				is = append(is, e.Line)
			}
		}
		trim := func(s string) string { return strings.TrimSuffix(s, "\n") }
		if strings.Join(was, "\n") != trim(before) || strings.Join(is, "\n") != trim(after) {
			t.Fatalf("%q → %q gave %q and %q", before, after, was, is)
		}
		if before == after {
			for _, e := range ownertext.Diff(before, after) {
				if e.Kind != ' ' {
					t.Fatalf("%q differs from itself", before)
				}
			}
		}
	})
}

func TestDiff_IsShort(t *testing.T) {
	edits := ownertext.Diff("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n")
	var got []string
	for _, e := range edits {
		got = append(got, string(e.Kind)+e.Line)
	}
	if text := strings.Join(got, "|"); text != " a|-b|+x| c| d|+e" {
		t.Error(text)
	}
	var shown strings.Builder
	same := func(s string) string { return s }
	ownertext.WriteDiff(&shown, ownertext.Diff(strings.Repeat("x\n", 50)+"a\n", strings.Repeat("x\n", 50)+"b\n"), same, same, same)
	if n := strings.Count(shown.String(), "\n"); n != 6 { // …, three lines around, - and +
		t.Errorf("%d lines:\n%s", n, shown.String())
	}
}

func TestDiff_LargeTextsEnd(t *testing.T) {
	var a, b strings.Builder
	for i := range 20000 {
		fmt.Fprintln(&a, i)
		fmt.Fprintln(&b, -i)
	}
	if n := len(ownertext.Diff(a.String(), b.String())); n < 39000 {
		t.Errorf("%d edits", n)
	}
}

func TestPlain_NothingActsOnTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"Zoë 漢字 ok":          "Zoë 漢字 ok",
		"\x1b[2Jgone":        "·[2Jgone",
		"a\u202eb":           "a·b", // right-to-left override
		"a\u200bb\r\nc":      "a·b· c",
		"\u0085\u009b31mred": "··31mred", // C1 controls
		"tab\there":          "tab here",
		string([]byte{0xff}): "·",
	} {
		if got := ownertext.Plain(in, false); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := ownertext.Plain("a\n\tb\x07", true); got != "a\n\tb·" {
		t.Errorf("%q", got)
	}
}

func TestExitCode_IsWhatIsDocumented(t *testing.T) {
	from := func(status int, code string) error {
		return &ownerapi.ResponseError{Status: status, Problem: problem.New(code, "x")}
	}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{problem.New("usage", "x"), 2},
		{from(403, "approval_needs_presence"), 3},
		{from(422, "managed_harness_identity_changed"), 3},
		{from(401, "owner_signature_invalid"), 3},
		{problem.New("denied", "x"), 3},
		{problem.New("approval_denied", "x"), 3},
		{problem.New("daemon_unreachable", "x"), 4},
		{problem.New("timed_out", "x"), 5},
		{problem.New("approval_timed_out", "x"), 5},
		{from(404, "launch_not_found"), 1},
		{from(500, "internal"), 1},
		{fmt.Errorf("in between: %w", from(422, "token_consumed")), 3},
	} {
		if got := ownertext.ExitCode(c.err); got != c.code {
			t.Errorf("%v: %d, want %d", c.err, got, c.code)
		}
	}
}
