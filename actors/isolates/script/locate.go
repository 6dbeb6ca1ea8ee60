package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"sophia/messages"
)

// maxFrame is how much of a source line is shown, in characters.
const maxFrame = 160

// Clip bounds a source line that is shown.
func Clip(line string) string {
	line = strings.TrimRight(line, "\r")
	if utf8.RuneCountInString(line) <= maxFrame {
		return line
	}
	return string([]rune(line)[:maxFrame]) + "…"
}

var frame = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*at (?:async )?(?:(.*?) \()?` + Name + `:(\d+):(\d+)\)?$`)
})

const (
	maxStack = 8    // frames of a stack that are kept
	maxLine  = 1024 // bytes of one
)

// Frames are the lines of a V8 stack that may be of the snippet, as they are.
func Frames(stack string) []string {
	var frames []string
	for line := range strings.SplitSeq(stack, "\n") {
		if strings.Contains(line, Name+":") && len(line) <= maxLine {
			if frames = append(frames, line); len(frames) == 2*maxStack {
				break
			}
		}
	}
	return frames
}

// Locate fills in where an error happened, from the lines of V8's stack: the
// position of the innermost frame of the snippet, the text of its line, and the
// snippet's own frames, mapped back. What lies outside the snippet is left out.
func (p *Program) Locate(e *messages.RunError, stack []string) {
	e.Stack = nil
	for _, line := range stack[:min(len(stack), 2*maxStack)] {
		if len(line) > maxLine {
			continue
		}
		m := frame().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		row, _ := strconv.Atoi(m[2])
		col, _ := strconv.Atoi(m[3])
		l, c, ok := p.Position(row, col)
		if !ok {
			continue
		}
		text := p.Lines[l-1]
		c = characters(text, c-1) + 1
		if e.Line == 0 {
			e.Line, e.Column, e.Frame = l, c, Clip(text)
		}
		if len(e.Stack) < maxStack {
			at := fmt.Sprintf("%d:%d", l, c)
			if m[1] != "" {
				at = m[1] + " " + at
			}
			e.Stack = append(e.Stack, at)
		}
	}
}

// characters is how many there are in the first units of UTF-16, in which source
// maps and V8 count.
func characters(text string, units int) (n int) {
	for _, r := range text {
		if units -= utf16.RuneLen(r); units < 0 {
			break
		}
		n++
	}
	return n
}
