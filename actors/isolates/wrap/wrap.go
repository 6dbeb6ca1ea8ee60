// Package wrap puts a snippet into the async function that it runs as, without
// looking at it as code: what compiles it and what checks its types see the same.
// Lines stay where they are; only the first is shifted, by the prefix.
//
// Imports: the standard library only.
package wrap

import "strings"

// The function around a snippet.
const (
	Open    = "(async () => {"
	Closing = "\n})"
)

// Around is body as a program, after prefix, which begins with Open.
func Around(prefix, body string) string { return prefix + body + Closing }

// Object is body, which looks like an object, as the value of the function.
func Object(body string) (prefix, text string) {
	return Open + "return (", strings.TrimRight(body, "; \t\r\n") + "\n)"
}

// Unfence blanks the fences of a Markdown code block that is all of the code.
// The lines stay, so that line numbers do.
func Unfence(code string) string {
	trimmed := strings.TrimSpace(code)
	if !strings.HasPrefix(trimmed, "```") || !strings.HasSuffix(trimmed, "```") {
		return code
	}
	first, rest, found := strings.Cut(trimmed, "\n")
	if !found || strings.Contains(first[3:], "`") {
		return code
	}
	blank := strings.Count(code[:strings.Index(code, "```")], "\n") + 1
	return strings.Repeat("\n", blank) + strings.TrimSuffix(rest, "```")
}

// LooksLikeObject says whether code may be one object literal. In statement
// position that is a block to a parser.
func LooksLikeObject(body string) bool {
	t := strings.TrimRight(strings.TrimSpace(body), "; \t\r\n")
	return strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}")
}
