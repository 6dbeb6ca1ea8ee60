package vt

import "bytes"

// Kind is the kind of a control sequence.
type Kind uint8

const (
	Escape Kind = iota // ESC, intermediates, final
	CSI                // ESC [ … final
	OSC                // ESC ] … BEL or ST
	DCS                // ESC P … ST
	String             // ESC X, ESC ^, ESC _ … ST (SOS, PM, APC)
	Broken             // cut off by CAN, SUB or another ESC; kept as it came
)

// maxSequence is how many bytes of one sequence are kept. CSI sequences beyond
// it are Broken. Strings (images, clipboard) are passed on in pieces.
const maxSequence = 4096

// Handler is told what the parser sees. The slices are only valid during the call.
type Handler interface {
	// Text is a run of printable characters and C0 controls.
	Text(b []byte)
	// Sequence is one whole control sequence.
	Sequence(k Kind, raw []byte)
	// Long is a piece of a string that is longer than is kept whole: the first
	// piece starts with its introducer, the last one ends the string.
	Long(k Kind, piece []byte, first, last bool)
}

type state uint8

const (
	ground   state = iota
	escape         // after ESC
	escInter       // after ESC and an intermediate
	csi
	str    // in an OSC, DCS, SOS, PM or APC
	strEsc // after ESC in one
)

// Parser splits a stream. The zero value is at ground.
type Parser struct {
	st   state
	kind Kind
	long bool
	utf8 int // continuation bytes that the last character still needs
	raw  []byte
}

// Ground is true where a stream may be cut: outside every sequence and character.
func (p *Parser) Ground() bool { return p.st == ground && p.utf8 == 0 }

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// Parse reads the next bytes of the stream.
func (p *Parser) Parse(b []byte, h Handler) {
	for len(b) > 0 {
		b = p.step(b, h)
	}
}

func (p *Parser) step(b []byte, h Handler) []byte {
	switch p.st {
	case ground:
		return p.text(b, h)
	case str:
		return p.body(b, h)
	}
	return p.control(b, h)
}

// text takes everything up to the next ESC at once: that is the fast path.
func (p *Parser) text(b []byte, h Handler) []byte {
	n := bytes.IndexByte(b, esc)
	run := b
	if n >= 0 {
		run = b[:n]
	}
	if len(run) > 0 {
		p.utf8 = pending(run, p.utf8)
		h.Text(run)
	}
	if n < 0 {
		return nil
	}
	p.utf8 = 0                       // an ESC ends a character that was cut short
	if m := wholeCSI(b[n:]); m > 0 { // most sequences are short and not cut
		h.Sequence(CSI, b[n:n+m])
		return b[n+m:]
	}
	p.begin()
	return b[n+1:]
}

// wholeCSI is the length of the plain CSI sequence that b begins with, or 0
// where it is cut, long, or holds a control: the slow path knows those.
func wholeCSI(b []byte) int {
	if len(b) < 3 || b[1] != '[' {
		return 0
	}
	for i, c := range b[2:min(len(b), 128)] {
		if c >= 0x40 && c < del {
			return i + 3
		}
		if c < 0x20 || c >= del {
			return 0
		}
	}
	return 0
}

func (p *Parser) begin() {
	p.st, p.kind, p.long = escape, Escape, false
	p.raw = append(p.raw[:0], esc)
}

func (p *Parser) done(k Kind, h Handler) {
	p.st = ground
	h.Sequence(k, p.raw)
}

// control takes one byte of a short sequence.
func (p *Parser) control(b []byte, h Handler) []byte {
	c := b[0]
	if p.st == strEsc {
		return p.afterEsc(c, b, h)
	}
	switch c {
	case esc: // starts anew; what came before is void
		p.done(Broken, h)
		p.begin()
		return b[1:]
	case can, sub:
		p.raw = append(p.raw, c)
		p.done(Broken, h)
		return b[1:]
	}
	if len(p.raw) >= maxSequence || c >= 0x80 {
		p.done(Broken, h)
		return b // c is text again
	}
	p.raw = append(p.raw, c)
	switch {
	case c < 0x20 || c == del: // executed or ignored inside a sequence
	case p.st == csi:
		if c >= 0x40 {
			p.done(CSI, h)
		}
	case c < 0x30:
		p.st = escInter
	case p.st == escInter:
		p.done(Escape, h)
	default:
		p.introduce(c, h)
	}
	return b[1:]
}

func (p *Parser) introduce(c byte, h Handler) {
	switch c {
	case '[':
		p.st, p.kind = csi, CSI
	case ']':
		p.st, p.kind = str, OSC
	case 'P':
		p.st, p.kind = str, DCS
	case 'X', '^', '_':
		p.st, p.kind = str, String
	default:
		p.done(Escape, h)
	}
}

// body takes a string's bytes up to its end or the next byte that can be one.
func (p *Parser) body(b []byte, h Handler) []byte {
	n := bytes.IndexAny(b, "\x07\x18\x1a\x1b")
	if n < 0 {
		p.keep(b, h)
		return nil
	}
	p.keep(b[:n], h)
	switch c := b[n]; c {
	case esc:
		p.st = strEsc
	case bel:
		if p.kind != OSC { // data in the other strings
			p.keep(b[n:n+1], h)
			break
		}
		p.finish(p.kind, h, bel)
	default: // CAN, SUB: void
		p.finish(Broken, h, c)
	}
	return b[n+1:]
}

func (p *Parser) afterEsc(c byte, b []byte, h Handler) []byte {
	if c == '\\' {
		p.finish(p.kind, h, esc, '\\')
		return b[1:]
	}
	p.finish(Broken, h) // another sequence begins: the string is void
	p.begin()
	return b
}

func (p *Parser) keep(b []byte, h Handler) {
	if len(b) == 0 {
		return
	}
	if !p.long && len(p.raw)+len(b) <= maxSequence {
		p.raw = append(p.raw, b...)
		return
	}
	if !p.long {
		p.long = true
		h.Long(p.kind, p.raw, true, false)
	}
	h.Long(p.kind, b, false, false)
}

func (p *Parser) finish(k Kind, h Handler, end ...byte) {
	if p.long {
		p.st, p.long = ground, false
		h.Long(p.kind, end, false, true)
		return
	}
	p.raw = append(p.raw, end...)
	p.done(k, h)
}

// Rest is what the parser has taken of a sequence that is not complete yet.
func (p *Parser) Rest() []byte {
	switch {
	case p.st == ground || p.long && p.st != strEsc:
		return nil
	case p.long:
		return []byte{esc}
	case p.st == strEsc:
		return append(p.raw[:len(p.raw):len(p.raw)], esc)
	}
	return p.raw
}

// pending is how many continuation bytes the last character of run still
// needs, where need were missing before it.
func pending(run []byte, need int) int {
	for i := len(run) - 1; i >= 0 && i >= len(run)-4; i-- {
		c := run[i]
		switch {
		case c < 0x80:
			return 0
		case c >= 0xc0:
			return max(0, length(c)-(len(run)-i))
		}
	}
	if len(run) < 4 { // continuation bytes only
		return max(0, need-len(run))
	}
	return 0
}

func length(lead byte) int {
	switch {
	case lead >= 0xf8:
		return 1
	case lead >= 0xf0:
		return 4
	case lead >= 0xe0:
		return 3
	}
	return 2
}
