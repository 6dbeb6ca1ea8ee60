package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"sophia/messages"
)

// maxFrame is how much of a source line is shown, in characters.
const maxFrame = 160

// explain makes a syntax error of the parser's message.
func explain(m *api.Message, lines []string, prefix int) *messages.RunError {
	e := &messages.RunError{Kind: messages.KindSyntax, Name: "SyntaxError", Message: m.Text}
	if m.Location == nil {
		return e
	}
	line, column := m.Location.Line, m.Location.Column
	if line == 1 {
		column = max(0, column-prefix)
	}
	if line > len(lines) {
		// The parser met the closing of the function around the code.
		e.Line = len(lines)
		e.Column = utf8.RuneCountInString(lines[e.Line-1]) + 1
		e.Frame = clip(lines[e.Line-1])
		if strings.HasPrefix(m.Text, "Expected") && strings.HasSuffix(m.Text, `but found "}"`) || strings.HasPrefix(m.Text, `Unexpected "}"`) {
			e.Message = "The brackets of the code don't match"
			e.Hint = "A bracket is opened and never closed, or there is one closing bracket too many."
		}
		return e
	}
	text := lines[line-1]
	e.Line = line
	e.Column = utf8.RuneCountInString(text[:min(column, len(text))]) + 1
	e.Frame = clip(text)
	e.Hint = advise(strings.TrimSpace(text))
	return e
}

var openers = []struct {
	start *regexp.Regexp
	hint  string
}{
	{regexp.MustCompile(`^import\b`), "import is not available: there are no modules inside. Everything is already there as a global: sophia, input, console."},
	{regexp.MustCompile(`^export\b`), "export is not available: end with `return value` or with an expression."},
	{regexp.MustCompile(`^(?:declare\s+)?(?:namespace|module)\b`), "namespace is not available inside: use a plain object."},
	{regexp.MustCompile("^```"), "Send only the code between the Markdown fences."},
}

func advise(line string) string {
	for _, o := range openers {
		if o.start.MatchString(line) {
			return o.hint
		}
	}
	return ""
}

func clip(line string) string {
	line = strings.TrimRight(line, "\r")
	if utf8.RuneCountInString(line) <= maxFrame {
		return line
	}
	return string([]rune(line)[:maxFrame]) + "…"
}

var frame = regexp.MustCompile(`^\s*at (?:async )?(?:(.*?) \()?` + Name + `:(\d+):(\d+)\)?$`)

// maxStack is how many frames of a stack are kept.
const maxStack = 8

// Locate fills in where a runtime error happened, from V8's stack: the position
// of the innermost frame of the snippet, the text of its line, and the snippet's
// own frames, mapped back. What lies outside the snippet is left out.
func (p *Program) Locate(e *messages.RunError, stack string) {
	for line := range strings.SplitSeq(stack, "\n") {
		m := frame.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		row, _ := strconv.Atoi(m[2])
		col, _ := strconv.Atoi(m[3])
		l, c, ok := p.Position(row, col)
		if !ok {
			continue
		}
		text := p.lines[l-1]
		c = utf8.RuneCountInString(text[:min(c-1, len(text))]) + 1
		if e.Line == 0 {
			e.Line, e.Column, e.Frame = l, c, clip(text)
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
