package ownertray

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"

	"sophia/messages"
	"sophia/messages/problem"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func asked(n int, code string) messages.TrayEvent {
	return messages.TrayEvent{Kind: messages.TrayAsked, Request: &messages.ApprovalRequest{
		ID: fmt.Sprint("ap-", n), Requester: "Claude", Title: fmt.Sprint("Change ", n), Code: code, Digest: fmt.Sprint("digest", n),
		Requested: now.Add(time.Duration(n) * time.Second), Expires: now.Add(5 * time.Minute),
	}}
}

func connected(events ...messages.TrayEvent) *model {
	m := &model{}
	m.connection(true)
	for _, e := range events {
		m.event(e)
	}
	return m
}

// enter types a line.
func (m *model) enter(text string) *decision {
	for _, r := range text {
		m.key(key{keyRune, r})
	}
	return m.key(key{kind: keyEnter})
}

func TestTray_ApprovesOnlyByTheCodeThatIsShown(t *testing.T) {
	m := connected(asked(1, "BCDFG"), asked(2, "XYZ23"))
	for _, wrong := range []string{"", "y", "yes", "a", "approve", "BCDF", "XYZ23", "BCDFG BCDFG"} {
		if d := m.enter(wrong); d != nil {
			t.Errorf("%q answered: %+v", wrong, d)
		}
	}
	d := m.enter("bcdfg") // as people type
	if d == nil || d.outcome != messages.OutcomeApproved || d.request.ID != "ap-1" || d.request.Digest != "digest1" {
		t.Fatalf("%+v", d)
	}
	if again := m.enter("BCDFG"); again != nil {
		t.Errorf("answered twice: %+v", again)
	}
	m.answered(*d, nil)
	if !strings.Contains(m.notice, "Approved: ap-1") {
		t.Errorf("notice: %q", m.notice)
	}
}

func TestTray_CodeOfARequestThatHasGoneApprovesNothing(t *testing.T) {
	m := connected(asked(1, "BCDFG"), asked(2, "XYZ23"))
	for _, r := range "BCDFG" { // the owner is typing when another tray answers
		m.key(key{keyRune, r})
	}
	m.event(messages.TrayEvent{Kind: messages.TrayAnswered, Verdict: &messages.ApprovalVerdict{ID: "ap-1", Outcome: messages.OutcomeDenied, By: "portal"}})
	if !strings.Contains(m.notice, "denied by portal") {
		t.Errorf("who answered is not told: %q", m.notice)
	}
	if d := m.key(key{kind: keyEnter}); d != nil {
		t.Errorf("answered %+v", d)
	}
}

func TestTray_DeniesWithAReason(t *testing.T) {
	m := connected(asked(1, "BCDFG"))
	d := m.enter("d not on a Friday ")
	if d == nil || d.outcome != messages.OutcomeDenied || d.reason != "not on a Friday" {
		t.Fatalf("%+v", d)
	}
	m.answered(*d, problem.New("approval_already_decided", "ap-1 was approved by portal"))
	if !m.bad || m.notice != "ap-1 was approved by portal" {
		t.Errorf("notice: %q", m.notice)
	}
}

func TestTray_NextGoesRound(t *testing.T) {
	m := connected(asked(1, "BCDFG"), asked(2, "XYZ23"), asked(3, "PQRTV"))
	var seen []string
	for range 4 {
		seen = append(seen, m.selected)
		m.enter("n")
	}
	if got := strings.Join(seen, " "); got != "ap-1 ap-2 ap-3 ap-1" {
		t.Errorf("went %s", got)
	}
	m.enter("p")
	if m.selected != "ap-1" {
		t.Errorf("back to %s", m.selected)
	}
}

func TestTray_SendsNothingWhileNotConnected(t *testing.T) {
	m := connected(asked(1, "BCDFG"))
	m.connection(false)
	if d := m.enter("BCDFG"); d != nil {
		t.Errorf("%+v", d)
	}
	m.connection(true)
	m.settle()
	if d := m.enter("BCDFG"); d != nil || m.notice != "Nothing waits for an answer." {
		t.Errorf("what was open before is still there: %+v %q", d, m.notice)
	}
}

func TestTray_ShowsAllThatIsDecided(t *testing.T) {
	e := asked(1, "BCDFG")
	e.Request.Tool = "sophia.remember_fact"
	e.Request.Arguments = json.RawMessage(`{"entity":"acme","note":"\u001b[2Jpay \u202eeverything"}`)
	e.Request.Details = [][2]string{{"sha256", strings.Repeat("ab", 32)}}
	e.Request.Preview = []messages.Change{{Table: "facts", Key: "f1", Before: json.RawMessage(`{"v":1}`), After: json.RawMessage(`{"v":2}`)}}
	m := connected(e)
	screen := strings.Join(m.view(60, 60, now, styles(false)), "\n")
	for _, want := range []string{"1 request waits", "Claude", "sophia.remember_fact", `"entity": "acme"`, "would change facts f1", `-   "v": 1`, `+   "v": 2`, "5:00 left", "Type BCDFG and Enter to approve"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing in\n%s", want, screen)
		}
	}
	if strings.ContainsAny(screen, "\x1b\u202e") {
		t.Errorf("a request repaints the owner's terminal:\n%q", screen)
	}
	if joined := strings.ReplaceAll(screen, "\n", ""); !strings.Contains(joined, strings.Repeat("ab", 32)) {
		t.Errorf("a long value is cut off:\n%s", screen)
	}
}

// Whatever is asked, the screen is filled and not overfilled, what to type stays
// in sight, and scrolling reaches every line.
func TestTray_FitsEveryScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, rows := rapid.IntRange(20, 120).Draw(t, "cols"), rapid.IntRange(8, 50).Draw(t, "rows")
		m := connected()
		for n := range rapid.IntRange(0, 30).Draw(t, "requests") {
			e := asked(n, "BCDFG")
			e.Request.Title = rapid.String().Draw(t, "title")
			text, _ := json.Marshal(map[string]string{"x": rapid.String().Draw(t, "argument")})
			e.Request.Arguments = text
			m.event(e)
		}
		seen := map[string]bool{}
		for range 400 {
			lines := m.view(cols, rows, now, styles(false))
			if len(lines) > rows {
				t.Fatalf("%d lines on %d rows", len(lines), rows)
			}
			for _, l := range lines {
				if w := runewidth.StringWidth(l); w > cols {
					t.Fatalf("%q is %d wide on %d columns", l, w, cols)
				}
				if !utf8.ValidString(l) {
					t.Fatalf("%q is no text", l)
				}
				seen[l] = true
			}
			if !strings.HasPrefix(lines[len(lines)-1], "> ") {
				t.Fatalf("the input line is not last: %q", lines)
			}
			before := m.scroll
			m.key(key{kind: keyDown})
			m.view(cols, rows, now, styles(false))
			if m.scroll == before {
				break
			}
		}
		if r, ok := m.current(); ok {
			for _, l := range wrap(details(r, now, styles(false)), cols) {
				if !seen[l] {
					t.Fatalf("%q can't be reached", l)
				}
			}
		}
	})
}

func TestTray_KeysOfATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"ab\r":                "a b enter",
		"é\x7f":               "é backspace",
		"\x1b[A\x1b[B\x1bOA":  "up down up",
		"\x1b[5~\x1b[6~":      "pageup pagedown",
		"\x1b[200~x\x1b[201~": "x", // bracketed paste
		"\x1b[1;5Cy":          "y",
		"\x03":                "quit",
		"\x15":                "clear",
		"\x1b":                "…",
		"\xc3":                "…",
		"\x1b[1":              "…",
	} {
		got, used := keys([]byte(in))
		var names []string
		for _, k := range got {
			names = append(names, name(k))
		}
		if used < len(in) {
			names = append(names, "…")
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%q: %v, want %s", in, names, want)
		}
	}
}

func name(k key) string {
	if k.kind == keyRune {
		return string(k.r)
	}
	return map[keyKind]string{keyEnter: "enter", keyBackspace: "backspace", keyClear: "clear", keyUp: "up", keyDown: "down",
		keyPageUp: "pageup", keyPageDown: "pagedown", keyQuit: "quit"}[k.kind]
}

func FuzzTray_Keys(f *testing.F) {
	for _, seed := range []string{"BCDFG\r", "\x1b[A", "\x1b[1;2;3;4;5;6;7;8;9;0;1;2;3;4;5;6;7m", "\xff\xfe", "\x1b\x1b\x1b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, used := keys(b)
		if used < 0 || used > len(b) || len(whole) > len(b) {
			t.Fatalf("%d keys from %d of %d bytes", len(whole), used, len(b))
		}
		// Read in two pieces it is the same.
		first, n := keys(b[:len(b)/2])
		second, _ := keys(append(append([]byte(nil), b[n:len(b)/2]...), b[len(b)/2:]...))
		if fmt.Sprint(append(first, second...)) != fmt.Sprint(whole) {
			t.Fatalf("%v and %v, whole %v", first, second, whole)
		}
	})
}

func TestTray_ErrorsThatAreNotForPeopleAreNotShown(t *testing.T) {
	m := connected(asked(1, "BCDFG"))
	d := m.enter("BCDFG")
	m.answered(*d, errors.New("dial tcp: secret detail"))
	if strings.Contains(m.notice, "secret detail") {
		t.Error(m.notice)
	}
}
