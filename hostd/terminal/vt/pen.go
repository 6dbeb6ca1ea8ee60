package vt

import "bytes"

// param is an SGR parameter as it was written, without an allocation. The
// longest that terminals know, 38:2::255:255:255, has 17 bytes; of a longer
// one nothing is kept, as terminals ignore it.
type param struct {
	n uint8
	b [23]byte
}

func paramOf(b []byte) (p param) {
	if len(b) <= len(p.b) {
		p.n = uint8(copy(p.b[:], b))
	}
	return p
}

// pen is the graphic rendition (SGR): each attribute as the parameter that
// sets it, empty when it is off.
type pen struct {
	on [10]param // by number 1 to 9, where 4 may be 4:3 or 21; index 0 is overline (53)
	fg param
	bg param
	ul param
}

// apply follows one SGR sequence's parameters.
func (p *pen) apply(args []byte) {
	for rest := args; rest != nil; {
		f := rest
		if i := bytes.IndexByte(rest, ';'); i >= 0 {
			f, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		n, colons := 0, false
		for _, c := range f {
			if c == ':' {
				colons = true
				break
			}
			n = n*10 + int(c-'0')
			if n > 999 {
				break
			}
		}
		if n != 38 && n != 48 && n != 58 {
			p.attribute(n, f, colons)
			continue
		}
		color := f
		if !colons {
			more := extended(rest)
			if more < 0 {
				return // cut short: terminals ignore the rest
			}
			// f and rest lie in one slice, with a ';' between them.
			color = args[len(args)-len(rest)-1-len(f):][:len(f)+1+more]
			rest = rest[more:]
			if len(rest) > 0 {
				rest = rest[1:]
			} else {
				rest = nil
			}
		}
		switch n {
		case 38:
			p.fg = paramOf(color)
		case 48:
			p.bg = paramOf(color)
		case 58:
			p.ul = paramOf(color)
		}
	}
}

func (p *pen) attribute(n int, f []byte, colons bool) {
	switch {
	case n == 0:
		*p = pen{}
	case n >= 1 && n <= 9:
		p.on[n] = paramOf(f)
		if n == 4 && colons && string(f) == "4:0" {
			p.on[4] = param{}
		}
	case n == 21:
		p.on[4] = paramOf(f)
	case n == 22:
		p.on[1], p.on[2] = param{}, param{}
	case n >= 23 && n <= 24:
		p.on[n-20] = param{}
	case n == 25:
		p.on[5], p.on[6] = param{}, param{}
	case n >= 27 && n <= 29:
		p.on[n-20] = param{}
	case n == 53:
		p.on[0] = paramOf(f)
	case n == 55:
		p.on[0] = param{}
	case n >= 30 && n <= 37, n >= 90 && n <= 97:
		p.fg = paramOf(f)
	case n >= 40 && n <= 47, n >= 100 && n <= 107:
		p.bg = paramOf(f)
	case n == 39:
		p.fg = param{}
	case n == 49:
		p.bg = param{}
	case n == 59:
		p.ul = param{}
	}
}

// extended is the length of what follows 38; in 38;5;N or 38;2;R;G;B, or -1.
func extended(rest []byte) int {
	fields := 0
	switch {
	case bytes.HasPrefix(rest, []byte("5;")):
		fields = 2
	case bytes.HasPrefix(rest, []byte("2;")):
		fields = 4
	default:
		return -1
	}
	for i, c := range rest {
		if c == ';' {
			if fields--; fields == 0 {
				return i
			}
		}
	}
	if fields > 1 {
		return -1
	}
	return len(rest)
}

// append adds one sequence that sets the pen from scratch.
func (p *pen) append(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	add := func(v param) {
		if v.n > 0 {
			b = append(append(b, ';'), v.b[:v.n]...)
		}
	}
	for _, v := range p.on {
		add(v)
	}
	add(p.fg)
	add(p.bg)
	add(p.ul)
	return append(b, 'm')
}
