package vt

import (
	"bytes"
	"strconv"
)

// pen is the graphic rendition (SGR): each attribute as the parameter that
// sets it, "" when it is off.
type pen struct {
	on [10]string // by number 1 to 9, where 4 may be 4:3 or 21; index 0 is overline (53)
	fg string
	bg string
	ul string
}

// apply follows one SGR sequence's parameters.
func (p *pen) apply(args []byte) {
	fields := bytes.Split(args, []byte{';'})
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		head, _, colons := bytes.Cut(f, []byte{':'})
		n := 0
		if len(head) > 0 {
			v, err := strconv.Atoi(string(head))
			if err != nil {
				continue
			}
			n = v
		}
		switch {
		case n == 0:
			*p = pen{}
		case n >= 1 && n <= 9:
			p.on[n] = string(f)
			if n == 4 && colons && string(f) == "4:0" {
				p.on[4] = ""
			}
		case n == 21:
			p.on[4] = "21"
		case n == 22:
			p.on[1], p.on[2] = "", ""
		case n == 23:
			p.on[3] = ""
		case n == 24:
			p.on[4] = ""
		case n == 25:
			p.on[5], p.on[6] = "", ""
		case n >= 27 && n <= 29:
			p.on[n-20] = ""
		case n == 53:
			p.on[0] = "53"
		case n == 55:
			p.on[0] = ""
		case n >= 30 && n <= 37, n >= 90 && n <= 97:
			p.fg = string(f)
		case n >= 40 && n <= 47, n >= 100 && n <= 107:
			p.bg = string(f)
		case n == 39:
			p.fg = ""
		case n == 49:
			p.bg = ""
		case n == 59:
			p.ul = ""
		case n == 38 || n == 48 || n == 58:
			color := string(f)
			if !colons {
				used := extended(fields[i:])
				if used == 0 {
					return // cut short: terminals ignore the rest
				}
				color = string(bytes.Join(fields[i:i+used], []byte{';'}))
				i += used - 1
			}
			switch n {
			case 38:
				p.fg = color
			case 48:
				p.bg = color
			case 58:
				p.ul = color
			}
		}
	}
}

// extended is how many fields 38;5;N or 38;2;R;G;B has, 0 if cut short.
func extended(f [][]byte) int {
	if len(f) < 2 {
		return 0
	}
	n := 0
	switch string(f[1]) {
	case "5":
		n = 3
	case "2":
		n = 5
	}
	if len(f) < n {
		return 0
	}
	return n
}

// append adds one sequence that sets the pen from scratch.
func (p *pen) append(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for _, v := range p.on {
		if v != "" {
			b = append(append(b, ';'), v...)
		}
	}
	for _, v := range []string{p.fg, p.bg, p.ul} {
		if v != "" {
			b = append(append(b, ';'), v...)
		}
	}
	return append(b, 'm')
}
