// Package evidence checks claims against their source without any model: a
// quote is evidence when it is a literal substring of the source's text, at
// most 300 characters long (spec neighbours, Grounding).
//
// Imports: messages/problem.
package evidence

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"sophia/messages/problem"
)

// MaxQuote is the longest quote in characters.
const MaxQuote = 300

// Check returns where the quote begins, in bytes, and how often it occurs.
// Codes: quote_empty, quote_too_long, quote_not_found.
func Check(text, quote string) (offset, occurrences int, err error) {
	if strings.TrimSpace(quote) == "" {
		return 0, 0, problem.New("quote_empty", "there is no quote").WithHint("Copy the words from the source that carry the claim.")
	}
	if n := utf8.RuneCountInString(quote); n > MaxQuote {
		return 0, 0, problem.New("quote_too_long", "the quote has %d characters; at most %d are allowed", n, MaxQuote).
			WithHint("Quote only the words that carry the claim.")
	}
	if i := strings.Index(text, quote); i >= 0 {
		return i, strings.Count(text, quote), nil
	}
	p := problem.New("quote_not_found", "the quote is not in the source, word for word")
	switch {
	case strings.Contains(norm.NFC.String(text), norm.NFC.String(quote)):
		return 0, 0, p.WithHint("It differs from the source in how characters are composed (Unicode NFC, NFD). Copy it from read_document.")
	case strings.Contains(squeeze(text), squeeze(quote)):
		return 0, 0, p.WithHint("It differs from the source in white space or line breaks. Copy it from read_document.")
	case strings.Contains(plain(text), plain(quote)):
		return 0, 0, p.WithHint("It differs from the source in case or punctuation. Copy it from read_document.")
	}
	return 0, 0, p.WithHint("Read the source with read_document and copy the words.")
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func plain(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ")
}
