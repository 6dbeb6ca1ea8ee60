package compile

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf16"

	"github.com/evanw/esbuild/pkg/api"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wrap"
	"sophia/messages"
)

const open = wrap.Open

// Compile returns the program, or a RunError of kind syntax with its position
// in the code as given.
func Compile(code string) (*script.Program, *messages.RunError) {
	lines := strings.Split(code, "\n")
	body := wrap.Unfence(code)
	p, err := compile(body, open)
	// An object literal in statement position is a block to the parser, and a
	// statement that folds to a constant is dropped by the printer: both may be
	// whole expressions.
	if wrap.LooksLikeObject(body) || err == nil && empty(p) && strings.TrimSpace(body) != "" {
		prefix, object := wrap.Object(body)
		if q, bad := compile(object, prefix); bad == nil {
			p, err = q, nil
		}
	}
	if err != nil {
		return nil, explain(err, lines, len(open))
	}
	p.Lines = lines
	if q := withLast(p, body); q != nil {
		q.Lines = lines
		return q, nil
	}
	return p, nil
}

// maxCuts is how many places are tried as the start of the last statement.
const maxCuts = 8

// withLast compiles again with the last statement as what is returned, where
// nothing is left of it: a statement that folds to a constant, as -1 or undefined
// do, is dropped by the printer, and the one before it would be returned.
func withLast(p *script.Program, body string) *script.Program {
	text := strings.TrimRight(body, "; \t\r\n")
	at := len(text)
	for range maxCuts {
		if at = strings.LastIndexAny(text[:at], ";}\n"); at < 0 {
			return nil
		}
		before, last := text[:at+1], text[at+1:]
		line := strings.Count(before, "\n")
		column := utf16Len(before[strings.LastIndexByte(before, '\n')+1:])
		if p.Leaves(line, column) {
			return nil
		}
		if strings.TrimSpace(last) == "" {
			continue
		}
		if rest, bad := compile(before, open); bad != nil || rest.JS != p.JS {
			continue // not where the statement starts
		}
		if q, bad := compile(before+" return ("+last+"\n)", open); bad == nil {
			return q
		}
	}
	return nil
}

func utf16Len(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

func compile(body, prefix string) (*script.Program, *api.Message) {
	r := api.Transform(wrap.Around(prefix, body), api.TransformOptions{
		Loader:         api.LoaderTS,
		Target:         api.ES2022,
		Sourcefile:     script.Name,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LegalComments:  api.LegalCommentsNone,
		LogLimit:       1,
		TsconfigRaw:    `{"compilerOptions":{"experimentalDecorators":true,"useDefineForClassFields":true}}`,
		Supported: map[string]bool{
			// Without template literals a statement that starts at the body's own
			// indentation is always the start of a line there: see final.
			"template-literal": false,
			"dynamic-import":   false, // becomes require, which says what to do
		},
	})
	if len(r.Errors) > 0 {
		return nil, &r.Errors[0]
	}
	p := &script.Program{Mappings: mappings(r.Map)}
	generated := strings.TrimSuffix(string(r.Code), "\n")
	start := strings.LastIndex("\n"+generated, "\n"+open+"\n")
	if start < 0 || !strings.HasSuffix(generated, "\n});") {
		// `async () => {}` with nothing left in it, or code that closed the
		// function which it was put into.
		if strings.HasSuffix(generated, open+"\n});") && strings.Count(generated, "\n});") == 1 {
			p.JS = generated
			return p, nil
		}
		return nil, unbalanced(body)
	}
	head := generated[:start]
	inner := generated[start+len(open)+1 : len(generated)-len("});")]
	if escapes(head) || escapes(inner) {
		return nil, unbalanced(body)
	}
	finish(p, head+open+"\n", inner)
	return p, nil
}

// escapes reports whether the user's code closed the wrapper: then a line of it
// stands at the outermost level, where only the printer's helpers do otherwise.
func escapes(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "});") || strings.HasPrefix(line, open) {
			return true
		}
	}
	return false
}

func unbalanced(body string) *api.Message {
	return &api.Message{Text: `Unexpected "}"`, Location: &api.Location{Line: strings.Count(body, "\n") + 2}}
}

func empty(p *script.Program) bool { return strings.HasSuffix(p.JS, open+"\n});") }

var (
	topLevel  = regexp.MustCompile(`(?m)^  [^\s})\]]`)
	statement = regexp.MustCompile(`^(?:const|let|var|if|else|for|while|do|switch|try|throw|return|break|continue|function|async function|class|debugger|enum)\b|^[{;@]|^[\w$]+:`)
	function  = regexp.MustCompile(`^(?:async )?(?:\([^\n]*\)|[\w$]+) =>|^\((?:async )?function\b`)
	declared  = regexp.MustCompile(`^(?:async )?function ([\w$]+)\(`)
)

// finish makes the last statement the result where it is an expression. The
// printer puts every statement of the body on a line of its own at two spaces
// and everything inside one deeper; its closing brackets are told apart by
// their first character.
func finish(p *script.Program, head, inner string) {
	starts := topLevel.FindAllStringIndex(inner, -1)
	for len(starts) > 0 && inner[starts[len(starts)-1][0]:] == "  ;\n" { // what a type or a stray ; leaves
		inner = inner[:starts[len(starts)-1][0]]
		starts = starts[:len(starts)-1]
	}
	if len(starts) == 0 {
		p.JS = head + inner + "});"
		return
	}
	at := starts[len(starts)-1][0] + 2
	last := inner[at:]
	switch {
	case len(starts) == 1 && declared.MatchString(last):
		p.Sole = true
		p.JS = head + inner + "  return " + declared.FindStringSubmatch(last)[1] + ";\n});"
	case statement.MatchString(last):
		p.JS = head + inner + "});"
	default:
		p.Sole = len(starts) == 1 && function.MatchString(last)
		p.Shift = script.Shift{Line: strings.Count(head+inner[:at], "\n"), Column: 2, By: len("return ")}
		p.JS = head + inner[:at] + "return " + last + "});"
	}
}

// mappings of a source map. Positions are a help, never a reason to fail.
func mappings(sourceMap []byte) string {
	var m struct {
		Mappings string `json:"mappings"`
	}
	_ = json.Unmarshal(sourceMap, &m)
	return m.Mappings
}
