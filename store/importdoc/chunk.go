package importdoc

import (
	"strings"
	"unicode/utf8"
)

// Sizes of a passage in bytes.
const (
	chunkGoal = 1200
	chunkMax  = 2000
)

// passage is a piece of a text. The passages of a text cover all of it but
// blank ends, in order, without overlap.
type passage struct {
	start, end int
	heading    string
}

// split cuts a text into passages: at headings of Markdown, else at blank
// lines once the goal is reached, else at a line's end, never within a
// character.
func split(text string, markdown bool) []passage {
	var out []passage
	var titles [7]string
	fence, under := "", ""
	start, at := 0, 0
	flush := func(end int) {
		s, e := start, end
		for s < e && (text[s] == '\n' || text[s] == ' ' || text[s] == '\r' || text[s] == '\t') {
			s++
		}
		for e > s && (text[e-1] == '\n' || text[e-1] == ' ' || text[e-1] == '\r' || text[e-1] == '\t') {
			e--
		}
		if e > s {
			out = append(out, passage{s, e, under})
		}
		start = end
	}
	for line := range strings.Lines(text) {
		next := at + len(line)
		if markdown {
			was := fence
			if fence = fenced(fence, line); fence == "" && was == "" {
				if level, h := heading(line); level > 0 {
					flush(at)
					titles[level] = h
					clear(titles[level+1:])
					under = trail(titles[1:])
				}
			}
		}
		blank := strings.TrimSpace(line) == ""
		switch {
		case blank && at-start >= chunkGoal:
			flush(next)
		case next-start > chunkMax && at > start:
			flush(at)
		}
		for next-start > chunkMax { // one long line
			cut := start + chunkMax
			if i := strings.LastIndexByte(text[start:cut], ' '); i > chunkGoal {
				cut = start + i + 1
			}
			for !utf8.RuneStart(text[cut]) {
				cut--
			}
			flush(cut)
		}
		at = next
	}
	flush(len(text))
	return out
}

func trail(titles []string) string {
	var parts []string
	for _, t := range titles {
		if t != "" {
			parts = append(parts, t)
		}
	}
	return strings.Join(parts, " › ")
}
