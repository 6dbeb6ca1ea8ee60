package terminal

import (
	"bytes"
	"strconv"

	"sophia/hostd/terminal/vt"
)

// Leave is the pair of keys that detaches a viewer: Ctrl with Prefix, then Key.
type Leave struct {
	Prefix byte `json:"prefix"` // the control character: 0x1c is Ctrl-\
	Key    byte `json:"key"`
}

// DefaultLeave is Ctrl-\ d.
var DefaultLeave = Leave{Prefix: 0x1c, Key: 'd'}

// leaver finds the detach keys in what is typed, in the plain encoding and in
// those of the kitty keyboard protocol and of modifyOtherKeys, which a program
// may have switched the viewer's terminal to.
type leaver struct {
	Leave
	held []byte // the prefix and what came with it, not yet forwarded
	out  []byte
	gone bool
}

// typed takes what was typed at once and returns what goes to the program.
// What follows the detach keys is dropped.
func (l *leaver) typed(b []byte) (forward []byte, detach bool) {
	l.out = l.out[:0]
	var p vt.Parser // each read holds whole keys; an ESC alone is the key itself
	p.Parse(b, l)
	if rest := p.Rest(); len(rest) > 0 && !l.gone {
		l.flush()
		l.out = append(l.out, rest...)
	}
	return l.out, l.gone
}

func (l *leaver) flush() {
	l.out = append(l.out, l.held...)
	l.held = l.held[:0]
}

// key takes one key. control is whether Ctrl was held.
func (l *leaver) key(code rune, control, release bool, raw []byte) {
	switch {
	case l.gone:
	case release:
		if len(l.held) > 0 {
			l.held = append(l.held, raw...)
		} else {
			l.out = append(l.out, raw...)
		}
	case len(l.held) > 0 && code == rune(l.Key) && !control:
		l.gone = true
	case len(l.held) > 0 && control && code == rune(l.Prefix|0x40):
		l.held = l.held[:0] // twice: once for the program
		l.out = append(l.out, raw...)
	case control && code == rune(l.Prefix|0x40):
		l.held = append(l.held, raw...)
	default:
		l.flush()
		l.out = append(l.out, raw...)
	}
}

// Text is of vt.Handler.
func (l *leaver) Text(b []byte) {
	for i, c := range b {
		if c < 0x20 {
			l.key(rune(c|0x40), true, false, b[i:i+1])
		} else {
			l.key(rune(c), false, false, b[i:i+1])
		}
	}
}

// Sequence is of vt.Handler.
func (l *leaver) Sequence(k vt.Kind, raw []byte) {
	if k == vt.CSI {
		if code, mods, event, ok := keyOf(raw); ok {
			l.key(code, mods&4 != 0, event == 3, raw)
			return
		}
	}
	if !l.gone { // an answer of the terminal, or a function key
		if len(l.held) > 0 && answer(raw) {
			l.out = append(l.out, raw...)
			return
		}
		l.flush()
		l.out = append(l.out, raw...)
	}
}

// Long is of vt.Handler.
func (l *leaver) Long(_ vt.Kind, piece []byte, _, _ bool) {
	if !l.gone {
		l.out = append(l.out, piece...)
	}
}

// answer is true for what a terminal sends by itself: it is no key between two.
func answer(raw []byte) bool {
	last := raw[len(raw)-1]
	return last == 'R' || last == 'c' || last == 'I' || last == 'O' || last == 'y' || raw[1] != '['
}

// keyOf reads CSI code[:…];mods[:event][;…]u and CSI 27;mods;code~. mods are
// the bits themselves (4 is Ctrl), event is 1 press, 2 repeat, 3 release.
func keyOf(raw []byte) (code rune, mods, event int, ok bool) {
	body, final := raw[2:len(raw)-1], raw[len(raw)-1]
	fields := bytes.Split(body, []byte{';'})
	num := func(field, sub, def int) int {
		if field >= len(fields) {
			return def
		}
		subs := bytes.Split(fields[field], []byte{':'})
		if sub >= len(subs) {
			return def
		}
		n, err := strconv.Atoi(string(subs[sub]))
		if err != nil {
			return def
		}
		return n
	}
	switch {
	case final == 'u':
		code, mods, event = rune(num(0, 0, 0)), num(1, 0, 1)-1, num(1, 1, 1)
	case final == '~' && num(0, 0, 0) == 27 && len(fields) == 3:
		code, mods, event = rune(num(2, 0, 0)), num(1, 0, 1)-1, 1
	}
	return code, mods, event, code > 0
}
