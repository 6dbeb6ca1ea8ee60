package judge

import "strings"

// ours says whether a type, as the compiler writes it, is one that Sophia
// declares, a promise, or a list or projection of such.
func (s *snippet) ours(t string) bool {
	for strings.HasSuffix(t, "[]") {
		t = strings.TrimSuffix(t, "[]")
	}
	t = strings.TrimPrefix(t, "Sophia.")
	name, rest, generic := strings.Cut(t, "<")
	if generic && name == "Promise" {
		return true
	}
	if !s.declared[name] && !(generic && name == "Partial") {
		return false
	}
	if !generic {
		return plain(name)
	}
	return strings.HasSuffix(rest, ">") && s.ours(strings.TrimSuffix(rest, ">"))
}

func plain(name string) bool {
	return name != "" && !strings.ContainsAny(name, " |&{}()[]<>,\"'")
}

// clash says whether a value of one type can never be one of another. Types that
// tell too little (any, unknown, objects that may be turned into text on the way,
// text that may be the right word) clash with nothing.
func (s *snippet) clash(from, to string) bool {
	targets := union(to)
	for _, f := range union(from) {
		k, literal := s.kindOf(f)
		if k == "" {
			return false
		}
		for _, t := range targets {
			if literal != "" && strings.HasPrefix(t, "... ") { // left out of a long text; of a literal the compiler knows
				continue
			}
			tk, tl := s.kindOf(t)
			if tk == "" || k == tk && (literal == "" || tl == "" || literal == tl) {
				return false
			}
		}
	}
	return true
}

// kindOf is what JSON a type becomes, and which literal it is; "" is unknown.
func (s *snippet) kindOf(t string) (kind, literal string) {
	switch {
	case t == "string" || t == "number" || t == "boolean":
		return t, ""
	case t == "true" || t == "false":
		return "boolean", t
	case strings.HasPrefix(t, `"`):
		return "string", t
	case t != "" && (t[0] >= '0' && t[0] <= '9' || t[0] == '-'):
		if strings.HasSuffix(t, "n") {
			return "", ""
		}
		return "number", t
	case strings.HasSuffix(t, "[]"):
		return "array", ""
	case s.ours(t):
		return "object", ""
	}
	return "", ""
}

// union splits a type at its top level.
func union(t string) []string {
	if strings.HasPrefix(t, "(") && strings.HasSuffix(t, ")") {
		t = t[1 : len(t)-1]
	}
	var out []string
	depth, from, quoted := 0, 0, false
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("({[<", c) >= 0:
			depth++
		case c == '>' && i > 0 && t[i-1] == '=':
		case strings.IndexByte(")}]>", c) >= 0:
			depth--
		case c == '|' && depth == 0:
			out, from = append(out, strings.TrimSpace(t[from:i])), i+1
		}
	}
	return append(out, strings.TrimSpace(t[from:]))
}
