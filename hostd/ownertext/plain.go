package ownertext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain replaces what could act on a terminal instead of being read: control
// characters, bidirectional overrides and the like become ·. Line breaks and
// tabs stay when lines is true.
func Plain(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return '·'
		}
		return r
	}, s)
}
