package analysis

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Version changes whenever the same text gives other terms. It is stored with
// the index, which is rebuilt when it differs.
const Version = 1

// maxTerm is the longest term in bytes; longer ones are cut.
const maxTerm = 64

// Terms are the terms of stored text, in order, repeated as they occur.
func Terms(text string) []string { return analyze(text, false) }

// QueryTerms are the terms to look for, each once. Words that carry no meaning
// of their own are left out where others remain.
func QueryTerms(query string) []string {
	all := analyze(query, true)
	seen := make(map[string]bool, len(all))
	var telling, rest []string
	for _, t := range all {
		if seen[t] {
			continue
		}
		seen[t] = true
		if stopwords[t] {
			rest = append(rest, t)
		} else {
			telling = append(telling, t)
		}
	}
	if len(telling) > 0 {
		return telling
	}
	return rest
}

func analyze(text string, query bool) []string {
	if !ascii(text) {
		text = norm.NFKC.String(strings.ToValidUTF8(text, " "))
	}
	a := analyzer{query: query, out: make([]string, 0, len(text)/5)}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case bigrammed(r):
			j := i + n
			for j < len(text) {
				r, n := utf8.DecodeRuneInString(text[j:])
				if !bigrammed(r) {
					break
				}
				j += n
			}
			a.bigrams(text[i:j])
			i = j
		case inToken(r):
			j := i + n
			for j < len(text) {
				r, n := utf8.DecodeRuneInString(text[j:])
				if !inToken(r) || bigrammed(r) {
					break
				}
				j += n
			}
			a.token(text[i:j])
			i = j
		default:
			i += n
		}
	}
	return a.out
}

type analyzer struct {
	query bool
	out   []string
}

func (a *analyzer) emit(term string) {
	if len(term) > maxTerm {
		cut := maxTerm
		for !utf8.RuneStart(term[cut]) {
			cut--
		}
		term = term[:cut]
	}
	if term != "" {
		a.out = append(a.out, term)
	}
}

// bigrams of a run of Han, Kana or Hangul. Stored text has the single
// characters too, so that a query of one character finds something.
func (a *analyzer) bigrams(run string) {
	var prev string
	for i, r := range run {
		c := run[i : i+utf8.RuneLen(r)]
		if !a.query || len(run) == len(c) {
			a.emit(c)
		}
		if prev != "" {
			a.emit(prev + c)
		}
		prev = c
	}
}

// token is a run of letters, digits and joiners.
func (a *analyzer) token(s string) {
	s = strings.ReplaceAll(s, "’", "'")
	s = strings.TrimRight(s, ".'-")
	s = strings.TrimLeft(s, "'")
	for len(s) > 1 && joiner(s[0]) && joiner(s[1]) && s[0] != '_' {
		s = s[1:] // "--flag" and "-flag" are one term
	}
	if strings.Trim(s, joiners) == "" {
		return
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "#") {
		s = strings.TrimLeft(s, "+#")
	}
	if strings.Contains(s, "'") && strings.Trim(s, letters+"'") == "" {
		a.emit(stem(fold(s)))
		return
	}
	pieces := strings.FieldsFunc(s, func(r rune) bool { return r < utf8.RuneSelf && joiner(byte(r)) })
	whole := fold(s)
	if len(pieces) == 1 && pieces[0] == s {
		a.piece(s, whole)
		return
	}
	a.emit(whole)
	for _, p := range pieces {
		a.piece(p, fold(p))
	}
}

// piece is a run of letters and digits: a word, or an identifier in camel case.
func (a *analyzer) piece(s, folded string) {
	parts := camel(s)
	if len(parts) == 1 {
		a.emit(stem(folded))
		return
	}
	a.emit(folded)
	for _, p := range parts {
		a.emit(stem(fold(p)))
	}
}

// camel splits before an upper-case letter that follows a lower-case one or a
// digit, and before the last of several that a lower-case one follows:
// HTTPServer is HTTP, Server.
func camel(s string) []string {
	var parts []string
	start := 0
	var before, prev rune
	var prevAt int
	for i, r := range s {
		switch {
		case i == 0:
		case unicode.IsUpper(r) && !unicode.IsUpper(prev):
			parts = append(parts, s[start:i])
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(prev) && unicode.IsUpper(before) && prevAt > start:
			parts = append(parts, s[start:prevAt])
			start = prevAt
		}
		before, prev, prevAt = prev, r, i
	}
	return append(parts, s[start:])
}

const (
	joiners = "_-.+#'"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func joiner(b byte) bool { return strings.IndexByte(joiners, b) >= 0 }

func inToken(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || joiner(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '’'
}

// bigrammed are the scripts that are written without spaces.
func bigrammed(r rune) bool {
	return r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == 'ー')
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func fold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return norm.NFKC.String(cases.Fold().String(s))
}

// stems keeps words with their stems: text is the same few thousand words again
// and again, and a word takes longer to stem than to look up.
var stems [1 << 13]atomic.Pointer[stemmed]

type stemmed struct{ word, stem string }

var stemSeed = maphash.MakeSeed()

func stem(s string) string {
	slot := &stems[maphash.String(stemSeed, s)%uint64(len(stems))]
	if known := slot.Load(); known != nil && known.word == s {
		return known.stem
	}
	word := strings.Clone(s) // not the text that it is a piece of
	known := &stemmed{word, stemOf(word)}
	slot.Store(known)
	return known.stem
}

func stemOf(s string) string {
	r, _ := utf8.DecodeRuneInString(s)
	switch {
	case len(s) < 3 || strings.ContainsAny(s, "0123456789"):
		return s
	case r < utf8.RuneSelf || unicode.Is(unicode.Latin, r):
		return english.Stem(s, false)
	case unicode.Is(unicode.Cyrillic, r):
		return russian.Stem(s, false)
	}
	return s
}

// stopwords as they come out of the stemmer.
var stopwords = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`a an and are as at be been but by can could did do does for from had has have he her
		his how i if in into is it its me my no not of on or our she should so than that the their them then there
		these they this those to us was we were what when where which who why will with would you your`) {
		m[w] = true
		m[stem(w)] = true
	}
	return m
}()
