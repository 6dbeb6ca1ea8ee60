package vt

import (
	"bytes"
	"strconv"
)

// params is a CSI sequence taken apart: ESC [ private params intermediate final.
type params struct {
	private byte   // < = > ? or 0
	args    []byte // digits, ';' and ':'
	inter   string
	final   byte
}

// parseCSI takes a whole CSI sequence apart. Controls inside are left out.
func parseCSI(raw []byte) (p params, ok bool) {
	if len(raw) < 3 {
		return p, false
	}
	body := raw[2 : len(raw)-1]
	p.final = raw[len(raw)-1]
	if hasControl(body) {
		clean := make([]byte, 0, len(body))
		for _, c := range body {
			if c >= 0x20 && c != del {
				clean = append(clean, c)
			}
		}
		body = clean
	}
	if len(body) > 0 && body[0] >= '<' && body[0] <= '?' {
		p.private, body = body[0], body[1:]
	}
	n := len(body)
	for n > 0 && body[n-1] >= 0x20 && body[n-1] < 0x30 {
		n--
	}
	p.args, p.inter = body[:n], string(body[n:])
	for _, c := range p.args {
		if c < '0' || c > ';' {
			return p, false
		}
	}
	return p, true
}

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c == del {
			return true
		}
	}
	return false
}

// is compares private marker, intermediates and final.
func (p params) is(private byte, inter string, final byte) bool {
	return p.private == private && p.inter == inter && p.final == final
}

// num is the n-th number, or def where it is missing or empty.
func (p params) num(n, def int) int {
	rest := p.args
	for ; n > 0; n-- {
		i := bytes.IndexByte(rest, ';')
		if i < 0 {
			return def
		}
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(rest, ';'); i >= 0 {
		rest = rest[:i]
	}
	if len(rest) == 0 {
		return def
	}
	v, err := strconv.Atoi(string(rest))
	if err != nil || v > 1<<20 {
		return def
	}
	return v
}

// each calls f for every number in the list.
func (p params) each(f func(n int)) {
	for field := range bytes.SplitSeq(p.args, []byte{';'}) {
		if v, err := strconv.Atoi(string(field)); err == nil {
			f(v)
		}
	}
}

// parseOSC splits ESC ] number ; rest, without the terminator.
func parseOSC(raw []byte) (number int, rest []byte, ok bool) {
	body := raw[2:]
	body = bytes.TrimSuffix(body, []byte{bel})
	body = bytes.TrimSuffix(body, []byte{esc, '\\'})
	head, rest, _ := bytes.Cut(body, []byte{';'})
	number, err := strconv.Atoi(string(head))
	return number, rest, err == nil
}

// Clipboard is true for OSC 52, which reads or writes the clipboard of whoever
// looks at the terminal. It also recognizes the beginning of a long one.
func Clipboard(k Kind, raw []byte) bool {
	return k == OSC && bytes.HasPrefix(raw, []byte("\x1b]52;"))
}

// Query is true for a sequence that makes a terminal answer into the program's
// input: replayed into a viewer's terminal, the answer would be typed into
// whatever runs by then.
func Query(k Kind, raw []byte) bool {
	switch k {
	case CSI:
		return queryCSI(raw)
	case OSC:
		number, rest, ok := parseOSC(raw)
		if !ok {
			return false
		}
		switch {
		case number == 4 || number == 5 || number >= 10 && number <= 19 || number == 21:
			return bytes.Equal(rest, []byte("?")) || bytes.HasSuffix(rest, []byte(";?")) || bytes.HasSuffix(rest, []byte("=?"))
		case number == 52:
			return bytes.HasSuffix(rest, []byte(";?"))
		case number == 99 || number == 5522: // kitty: notifications, clipboard
			return true
		}
	case DCS:
		body := raw[2:]
		return bytes.HasPrefix(body, []byte("$q")) || bytes.HasPrefix(body, []byte("+q"))
	case String:
		// kitty graphics answer unless they are told to be quiet (q=2).
		if bytes.HasPrefix(raw, []byte("\x1b_G")) {
			head, _, _ := bytes.Cut(raw, []byte{';'})
			return bytes.Contains(head, []byte("a=q"))
		}
	case Escape:
		return len(raw) == 2 && raw[1] == 'Z' // DECID
	}
	return false
}

func queryCSI(raw []byte) bool {
	switch raw[len(raw)-1] {
	case 'c', 'n', 'p', 'q', 'u', 't', 'x', 'y', 'w', 'v', '|', 'm', 'S':
	default:
		return false
	}
	if raw[len(raw)-1] == 'm' && raw[2] != '?' { // the most frequent sequence
		return false
	}
	p, ok := parseCSI(raw)
	if !ok {
		return false
	}
	switch p.final {
	case 'c': // DA1, DA2, DA3
		return p.inter == "" && p.private != '?' && p.num(0, 0) == 0
	case 'n': // DSR, CPR
		return p.inter == "" && (p.private == 0 || p.private == '?')
	case 'p': // DECRQM
		return p.inter == "$"
	case 'q': // XTVERSION
		return p.private == '>' && p.inter == ""
	case 'u': // kitty keyboard flags; DECRQTSR has '$'
		return p.private == '?' || p.inter == "$"
	case 't': // XTWINOPS reports; 18 to 21 and 11 to 16
		n := p.num(0, 0)
		return p.private == 0 && p.inter == "" && (n >= 11 && n <= 16 || n >= 18 && n <= 21)
	case 'x': // DECREQTPARM
		return p.private == 0 && p.inter == ""
	case 'y': // DECRQCRA, DECTST
		return p.inter == "*"
	case 'w': // DECRQPSR
		return p.inter == "$"
	case 'v': // XTREPORTSGR and such report with '#|'
		return p.inter == "$" && p.private == '?'
	case '|':
		return p.inter == "#"
	case 'm': // XTQMODKEYS
		return p.private == '?'
	case 'S': // XTSMGRAPHICS
		return p.private == '?'
	}
	return false
}
