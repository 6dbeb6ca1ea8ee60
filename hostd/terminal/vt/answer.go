package vt

import (
	"bytes"
	"fmt"
)

// Terminal is what the relay says of itself while nobody looks: a plain
// xterm-like terminal with light text on a dark background.
type Terminal struct {
	Rows, Cols uint16
	Version    string // for XTVERSION, e.g. "sophia(1)"
}

// Answer is what this terminal answers to a query, "" for one that terminals
// of its kind ignore. A program that asks at its start and gets no answer would
// wait for its own timeout, or for ever. The cursor's place is not known to a
// tracker; the home position is the answer that programs take for a new screen.
func (t Terminal) Answer(k Kind, raw []byte, state *Tracker) string {
	switch k {
	case CSI:
		return t.answerCSI(raw, state)
	case OSC:
		number, rest, ok := parseOSC(raw)
		if !ok || !bytes.Equal(rest, []byte("?")) {
			return ""
		}
		end := "\x1b\\"
		if raw[len(raw)-1] == bel { // answered in the way it was asked
			end = "\a"
		}
		switch number {
		case 10, 12:
			return fmt.Sprintf("\x1b]%d;rgb:d0d0/d0d0/d0d0%s", number, end)
		case 11:
			return fmt.Sprintf("\x1b]11;rgb:0000/0000/0000%s", end)
		}
	case DCS:
		switch {
		case bytes.HasPrefix(raw, []byte("\x1bP$q")):
			return "\x1bP0$r\x1b\\" // not a setting that we report
		case bytes.HasPrefix(raw, []byte("\x1bP+q")):
			return "\x1bP0+r\x1b\\"
		}
	case Escape:
		if string(raw) == "\x1bZ" {
			return da1
		}
	}
	return ""
}

// da1: a VT220-class terminal with ANSI colour.
const da1 = "\x1b[?62;22c"

func (t Terminal) answerCSI(raw []byte, state *Tracker) string {
	p, ok := parseCSI(raw)
	if !ok {
		return ""
	}
	n := p.num(0, 0)
	switch {
	case p.is(0, "", 'c'):
		return da1
	case p.is('>', "", 'c'):
		return "\x1b[>1;10;0c"
	case p.is('=', "", 'c'):
		return "\x1bP!|00000000\x1b\\"
	case p.is(0, "", 'n') && n == 5:
		return "\x1b[0n"
	case p.is(0, "", 'n') && n == 6:
		return "\x1b[1;1R"
	case p.is('?', "", 'n') && n == 6:
		return "\x1b[?1;1R"
	case p.is('?', "", 'n') && n == 996:
		return "\x1b[?997;1n" // dark
	case p.is('?', "$", 'p'):
		return fmt.Sprintf("\x1b[?%d;%d$y", n, state.report(n))
	case p.is(0, "$", 'p'):
		return fmt.Sprintf("\x1b[%d;0$y", n)
	case p.is('>', "", 'q') && n == 0:
		return "\x1bP>|" + t.Version + "\x1b\\"
	case p.is('?', "", 'u'):
		return fmt.Sprintf("\x1b[?%du", state.keyboard())
	case p.is(0, "", 't') && n == 18:
		return fmt.Sprintf("\x1b[8;%d;%dt", t.Rows, t.Cols)
	case p.is(0, "", 't') && n == 19:
		return fmt.Sprintf("\x1b[9;%d;%dt", t.Rows, t.Cols)
	}
	return ""
}
