package ownertray

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"sophia/hostd/ownertext"
	"sophia/messages"
)

// style wraps text in what a terminal shows differently; with colours off all
// of them return it as it is.
type style struct{ bold, dim, red, green func(string) string }

func styles(colour bool) style {
	wrap := func(code string) func(string) string {
		return func(s string) string {
			if !colour || s == "" {
				return s
			}
			return "\x1b[" + code + "m" + s + "\x1b[0m"
		}
	}
	return style{wrap("1"), wrap("2"), wrap("31"), wrap("32")}
}

// line is one line of text and how it is shown. It is wrapped before it is
// styled, so that no escape sequence is cut.
type line struct {
	text  string
	style func(string) string
}

func plain(s string) string { return s }

// view draws the model: at most rows lines, none wider than cols.
func (m *model) view(cols, rows int, now time.Time, st style) []string {
	cols, rows = max(cols, 20), max(rows, 8)
	head := wrap(m.head(now, st), cols)
	if most := max(rows/4, 1); len(head) > most { // the one that is selected is shown below in any case
		head = head[:most]
	}
	foot := m.foot(cols, rows/2, st)
	var body []string
	if r, ok := m.current(); ok {
		body = wrap(details(r, now, st), cols)
	}
	room := max(rows-len(head)-len(foot), 1)
	if len(body) > room {
		room-- // for the line that says so
		m.scroll = min(m.scroll, len(body)-room)
		below := len(body) - room - m.scroll
		body = append(body[m.scroll:m.scroll+room:m.scroll+room],
			st.dim(cut(fmt.Sprintf("… %d lines above, %d below: arrow keys, page up, page down", m.scroll, below), cols)))
	} else {
		m.scroll = 0
	}
	return append(append(head, body...), foot...)
}

func (m *model) head(now time.Time, st style) []line {
	var out []line
	switch n := len(m.requests); {
	case !m.connected:
		out = append(out, line{"Sophia: not connected, trying again", st.red})
	case n == 0:
		out = append(out, line{"Sophia: nothing waits for you", st.bold})
	case n == 1:
		out = append(out, line{"Sophia: 1 request waits for you", st.bold})
	default:
		out = append(out, line{fmt.Sprintf("Sophia: %d requests wait for you", n), st.bold})
	}
	for _, r := range m.requests {
		mark := "  "
		if r.ID == m.selected {
			mark = "> "
		}
		out = append(out, line{fmt.Sprintf("%s%s  %s: %s  (%s)", mark, r.ID, r.Requester, r.Title, left(r, now)), plain})
	}
	return append(out, line{"", plain})
}

// foot is at most most lines: what to type stays in sight, the rest gives way.
func (m *model) foot(cols, most int, st style) []string {
	var notice, what, help []line
	if m.notice != "" {
		s := st.green
		if m.bad {
			s = st.red
		}
		notice = []line{{m.notice, s}}
	}
	switch r, ok := m.current(); {
	case m.sending != "":
		what = []line{{"Sending the answer…", st.dim}}
	case ok:
		what = []line{{"Type " + r.Code + " and Enter to approve", st.bold}}
		help = []line{{"d REASON to deny, n for the next, q to quit", st.dim}}
	default:
		help = []line{{"q to quit", st.dim}}
	}
	input := "> " + string(m.input)
	for runewidth.StringWidth(input) > cols-1 { // the end of it, where the owner types
		input = "> " + string([]rune(input)[3:])
	}
	out := append(wrap(what, cols), wrap([]line{{input, plain}}, cols)...)
	for _, more := range [][]line{help, notice, {{"", plain}}} {
		if wrapped := wrap(more, cols); len(out)+len(wrapped) <= most {
			out = append(wrapped, out...)
		}
	}
	return out
}

// details is everything that the owner decides about.
func details(r messages.ApprovalRequest, now time.Time, st style) []line {
	out := []line{{r.Title, st.bold}}
	field := func(label, value string) {
		if value != "" {
			out = append(out, line{fmt.Sprintf("%-14s %s", label, value), plain})
		}
	}
	field("request", r.ID+"  "+left(r, now))
	field("from", strings.TrimSpace(r.Requester+"  "+r.Connection))
	field("terminal", r.Terminal)
	field("tool", r.Tool)
	for _, d := range r.Details {
		field(d[0], d[1])
	}
	if len(r.Arguments) > 0 && string(r.Arguments) != "null" {
		out = append(out, line{"arguments", st.dim})
		for text := range strings.Lines(ownertext.Indented(r.Arguments)) {
			out = append(out, line{"  " + strings.TrimSuffix(text, "\n"), plain})
		}
	}
	for _, c := range r.Preview {
		out = append(out, line{"would change " + c.Table + " " + c.Key, st.dim})
		for _, e := range ownertext.Diff(ownertext.Indented(c.Before), ownertext.Indented(c.After)) {
			s := plain
			switch e.Kind {
			case '-':
				s = st.red
			case '+':
				s = st.green
			}
			out = append(out, line{string(e.Kind) + " " + e.Line, s})
		}
	}
	field("bound to", r.Digest)
	return out
}

// wrap breaks what is wider than the screen: cutting it off could hide what the
// owner agrees to.
func wrap(in []line, cols int) []string {
	var out []string
	for _, l := range in {
		text := ownertext.Plain(strings.ReplaceAll(l.text, "\t", "    "), false)
		for {
			piece := cut(text, cols)
			out = append(out, l.style(piece))
			if text = text[len(piece):]; text == "" {
				break
			}
		}
	}
	return out
}

// cut is the longest start of text that is at most cols wide.
func cut(text string, cols int) string {
	width := 0
	for i, r := range text {
		if width += runewidth.RuneWidth(r); width > cols && i > 0 {
			return text[:i]
		}
	}
	return text
}
