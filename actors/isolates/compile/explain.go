package compile

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"sophia/actors/isolates/script"
	"sophia/messages"
)

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
		e.Frame = script.Clip(lines[e.Line-1])
		if strings.HasPrefix(m.Text, "Expected") && strings.HasSuffix(m.Text, `but found "}"`) || strings.HasPrefix(m.Text, `Unexpected "}"`) {
			e.Message = "The brackets of the code don't match"
			e.Hint = "A bracket is opened and never closed, or there is one closing bracket too many."
		}
		return e
	}
	text := lines[line-1]
	e.Line = line
	e.Column = utf8.RuneCountInString(text[:min(column, len(text))]) + 1
	e.Frame = script.Clip(text)
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
