package ownertray

import (
	"unicode"
	"unicode/utf8"
)

type keyKind uint8

const (
	keyNone keyKind = iota
	keyRune
	keyEnter
	keyBackspace
	keyClear // Ctrl-U
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyQuit // Ctrl-C, Ctrl-D
)

type key struct {
	kind keyKind
	r    rune
}

// keys reads keys from what a terminal in raw mode sends. It returns how much
// of b it used: the start of an unfinished sequence is left for the next read.
// Sequences that mean nothing here are skipped whole, so that none of their
// bytes count as typed.
func keys(b []byte) (out []key, used int) {
	for used < len(b) {
		k, n := oneKey(b[used:])
		if n == 0 {
			return out, used
		}
		used += n
		if k.kind != keyNone {
			out = append(out, k)
		}
	}
	return out, used
}

func oneKey(b []byte) (key, int) {
	switch c := b[0]; {
	case c == '\r' || c == '\n':
		return key{kind: keyEnter}, 1
	case c == 0x7f || c == 0x08:
		return key{kind: keyBackspace}, 1
	case c == 0x15:
		return key{kind: keyClear}, 1
	case c == 0x03 || c == 0x04:
		return key{kind: keyQuit}, 1
	case c == 0x1b:
		return escape(b)
	case c < ' ':
		return key{}, 1
	}
	if !utf8.FullRune(b) {
		return key{}, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return key{}, n
	}
	return key{keyRune, r}, n
}

// maxEscape bounds an unfinished sequence.
const maxEscape = 32

func escape(b []byte) (key, int) {
	if len(b) == 1 {
		return key{}, 0
	}
	if b[1] != '[' && b[1] != 'O' {
		return key{}, 2 // Alt and a key
	}
	for i := 2; i < len(b); i++ {
		if c := b[i]; c >= 0x40 && c <= 0x7e { // ECMA-48, 5.4: the final byte
			return sequence(string(b[2 : i+1])), i + 1
		}
		if i > maxEscape {
			return key{}, i
		}
	}
	return key{}, 0
}

func sequence(s string) key {
	switch s {
	case "A":
		return key{kind: keyUp}
	case "B":
		return key{kind: keyDown}
	case "5~":
		return key{kind: keyPageUp}
	case "6~":
		return key{kind: keyPageDown}
	}
	return key{}
}
