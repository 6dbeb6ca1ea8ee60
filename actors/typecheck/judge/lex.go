package judge

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	word kind = iota // identifiers and keywords
	number
	text // string literals
	template
	regexpLiteral
	punct
)

// token is a piece of a snippet. Brackets know their partner, and every token
// the bracket that it is in.
type token struct {
	kind    kind
	s       string
	at      int // byte offset
	partner int // index of the matching bracket; -1 for other tokens
	within  int // index of the bracket around it; -1 at the top
}

// longest first
var operators = []string{
	">>>=", "...", "===", "!==", "**=", "<<=", ">>=", "&&=", "||=", "??=",
	"=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**", "<<",
}

var opening = map[string]string{"(": ")", "[": "]", "{": "}", "${": "}"}

type lexer struct {
	src  string
	at   int
	toks []token
	open []int // indexes of open brackets
}

// lex takes code apart. It reports false for code that it can't follow.
func lex(src string) ([]token, bool) {
	l := &lexer{src: src}
	for l.at < len(l.src) {
		if !l.next() {
			return nil, false
		}
	}
	return l.toks, len(l.open) == 0
}

func (l *lexer) next() bool {
	c, size := utf8.DecodeRuneInString(l.src[l.at:])
	rest := l.src[l.at:]
	switch {
	case unicode.IsSpace(c) || c == '\ufeff':
		l.at += size
		return true
	case strings.HasPrefix(rest, "//"):
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			l.at += i
		} else {
			l.at = len(l.src)
		}
		return true
	case strings.HasPrefix(rest, "/*"):
		i := strings.Index(rest[2:], "*/")
		if i < 0 {
			return false
		}
		l.at += i + 4
		return true
	case starts(c):
		return l.take(word, func(r rune) bool { return starts(r) || unicode.IsDigit(r) })
	case c == '#' && len(rest) > 1: // a private name
		l.at++
		return true
	case unicode.IsDigit(c):
		return l.take(number, func(r rune) bool { return starts(r) || unicode.IsDigit(r) || r == '.' })
	case c == '"' || c == '\'':
		return l.quoted(text, byte(c))
	case c == '`':
		return l.template()
	case c == '/' && l.regexpHere():
		return l.regexp()
	}
	return l.operator(rest, size)
}

func starts(r rune) bool { return unicode.IsLetter(r) || r == '_' || r == '$' }

func (l *lexer) add(k kind, s string, at int) {
	within := -1
	if n := len(l.open); n > 0 {
		within = l.open[n-1]
	}
	l.toks = append(l.toks, token{k, s, at, -1, within})
}

func (l *lexer) take(k kind, part func(rune) bool) bool {
	from := l.at
	for l.at < len(l.src) {
		r, size := utf8.DecodeRuneInString(l.src[l.at:])
		if !part(r) {
			break
		}
		l.at += size
	}
	l.add(k, l.src[from:l.at], from)
	return true
}

func (l *lexer) quoted(k kind, quote byte) bool {
	from := l.at
	for i := l.at + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case '\n':
			return false
		case quote:
			l.at = i + 1
			l.add(k, l.src[from+1:i], from)
			return true
		}
	}
	return false
}

// template lexes a template literal from its backquote or from the brace that
// ends an expression in it.
func (l *lexer) template() bool {
	from := l.at
	for i := l.at + 1; i < len(l.src); i++ {
		switch {
		case l.src[i] == '\\':
			i++
		case l.src[i] == '`':
			l.at = i + 1
			l.add(template, "", from)
			return true
		case strings.HasPrefix(l.src[i:], "${"):
			l.add(template, "", from)
			l.at = i + 2
			l.bracket("${", i)
			return true
		}
	}
	return false
}

// regexpHere says whether a slash begins a regular expression: it does where no
// value has ended.
func (l *lexer) regexpHere() bool {
	if len(l.toks) == 0 {
		return true
	}
	t := l.toks[len(l.toks)-1]
	switch t.kind {
	case word:
		return keyword[t.s]
	case punct:
		return t.s != ")" && t.s != "]" && t.s != "}" && t.s != "++" && t.s != "--"
	}
	return false
}

var keyword = map[string]bool{
	"return": true, "typeof": true, "case": true, "do": true, "else": true, "in": true, "of": true, "void": true, "delete": true,
	"await": true, "yield": true, "throw": true, "new": true, "instanceof": true,
}

func (l *lexer) regexp() bool {
	from, class := l.at, false
	for i := l.at + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case '\n':
			return false
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				l.at = i + 1
				l.add(regexpLiteral, l.src[from:l.at], from)
				return true
			}
		}
	}
	return false
}

func (l *lexer) operator(rest string, size int) bool {
	from := l.at
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			if op == "?." && len(rest) > 2 && unicode.IsDigit(rune(rest[2])) {
				continue // a?.5:1
			}
			l.at += len(op)
			l.add(punct, op, from)
			return true
		}
	}
	c := rest[:size]
	switch c {
	case "(", "[", "{":
		l.at++
		l.bracket(c, from)
		return true
	case ")", "]", "}":
		n := len(l.open)
		if n == 0 || opening[l.toks[l.open[n-1]].s] != c {
			return false
		}
		partner := l.open[n-1]
		l.open = l.open[:n-1]
		l.toks[partner].partner = len(l.toks)
		l.add(punct, c, from)
		l.toks[len(l.toks)-1].partner = partner
		if l.toks[partner].s == "${" {
			return l.template() // it goes on
		}
		l.at++
		return true
	}
	l.at += size
	l.add(punct, c, from)
	return true
}

func (l *lexer) bracket(s string, at int) {
	l.add(punct, s, at)
	l.open = append(l.open, len(l.toks)-1)
}
