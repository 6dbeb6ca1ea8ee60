package wiki

import (
	"strings"
)

// front is a page's front matter: the YAML that people write on top of a
// Markdown file. Only its common shape is understood: "key: value", where the
// value is everything after the first colon (so a title may have colons), in
// quotes or not, a list in brackets, or "- item" lines below. All other lines
// are kept as they are.
type front struct {
	lines []string // without line ends, and without the two "---"
}

// cut takes a file apart. A byte order mark is left out. ok is false when there
// is no front matter; all of the file is the body then. Of two blocks on top of
// each other the first one counts.
func cut(file string) (f front, body string, ok bool) {
	rest := strings.TrimPrefix(file, "\ufeff")
	first, rest, found := cutLine(rest)
	if !found || strings.TrimRight(first, " \t") != "---" {
		return front{}, strings.TrimPrefix(file, "\ufeff"), false
	}
	for rest != "" {
		var line string
		line, rest, _ = cutLine(rest)
		if t := strings.TrimRight(line, " \t"); t == "---" || t == "..." {
			return f, rest, true
		}
		f.lines = append(f.lines, line)
	}
	return front{}, strings.TrimPrefix(file, "\ufeff"), false
}

func cutLine(s string) (line, rest string, found bool) {
	line, rest, found = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest, found
}

// keys are what Sophia understands of front matter.
func keys() []string { return []string{"title", "tags", "entity", "shared", "signature"} }

// twice is an understood key that is given more than once, which readers of YAML
// understand differently or not at all; "" when none is. first and again are
// lines of the file, from 1.
func (f front) twice() (key string, first, again int) {
	const opening = 1 // the line of dashes
	for _, key := range keys() {
		from, to, ok := f.at(key)
		if !ok {
			continue
		}
		if next, _, more := (front{f.lines[to:]}).at(key); more {
			return key, opening + from + 1, opening + to + next + 1
		}
	}
	return "", 0, 0
}

// at finds a key: its line, and the line after its value.
func (f front) at(key string) (from, to int, ok bool) {
	for i, l := range f.lines {
		k, _, found := strings.Cut(l, ":")
		if !found || k != key {
			continue
		}
		to = i + 1
		for to < len(f.lines) && (strings.HasPrefix(f.lines[to], " ") || strings.HasPrefix(f.lines[to], "\t") || strings.HasPrefix(f.lines[to], "- ")) {
			to++
		}
		return i, to, true
	}
	return 0, 0, false
}

// text is a key's value; "" when it has none.
func (f front) text(key string) string {
	from, _, ok := f.at(key)
	if !ok {
		return ""
	}
	_, v, _ := strings.Cut(f.lines[from], ":")
	return unquote(strings.TrimSpace(v))
}

// list is a key's value as a list; a plain value is a list of one.
func (f front) list(key string) []string {
	from, to, ok := f.at(key)
	if !ok {
		return nil
	}
	_, v, _ := strings.Cut(f.lines[from], ":")
	v = strings.TrimSpace(v)
	var out []string
	add := func(s string) {
		if s = unquote(strings.TrimSpace(s)); s != "" {
			out = append(out, s)
		}
	}
	switch {
	case strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]"):
		for s := range strings.SplitSeq(v[1:len(v)-1], ",") {
			add(s)
		}
	case v != "":
		add(v)
	default:
		for _, l := range f.lines[from+1 : to] {
			if s, ok := strings.CutPrefix(strings.TrimSpace(l), "- "); ok {
				add(s)
			}
		}
	}
	return out
}

// set replaces a key's value, in its place or at the end; "" removes the key. Of
// a key that is there more than once one is left.
func (f *front) set(key, value string) {
	var lines []string
	if value != "" {
		lines = []string{key + ": " + value}
	}
	rest := *f
	var out []string
	for from, to, ok := rest.at(key); ok; from, to, ok = rest.at(key) {
		out = append(append(out, rest.lines[:from]...), lines...)
		rest.lines, lines = rest.lines[to:], nil
	}
	f.lines = append(append(out, rest.lines...), lines...)
}

// file puts front matter and body together.
func (f front) file(body string) string {
	var b strings.Builder
	b.WriteString("---\n")
	for _, l := range f.lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
	b.WriteString("---\n")
	b.WriteString(body)
	return b.String()
}

func unquote(s string) string {
	if len(s) >= 2 {
		switch {
		case s[0] == '"' && s[len(s)-1] == '"':
			return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s[1 : len(s)-1])
		case s[0] == '\'' && s[len(s)-1] == '\'':
			return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
		}
	}
	return s
}

// quote writes a value on one line, so that text reads it back and so do other
// readers of YAML.
func quote(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" || strings.ContainsAny(s, ":#[]{},&*!|>'\"%@`\\") || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "?") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}
