package script

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"sophia/actors/isolates/wrap"
	"sophia/messages"
)

// Name is the file name under which a snippet runs; its stack frames carry it.
const Name = "snippet"

// Program is a compiled snippet.
type Program struct {
	// JS is a script whose completion value is an async function without
	// parameters: the snippet.
	JS string
	// Sole says that the snippet was nothing but a function. If that is also what
	// it returns, the function is the program and is to be called.
	Sole bool

	lines    []string // of the code as given
	raw      []byte   // esbuild's source map
	shift    shift
	segments [][]segment // decoded when first asked for
}

// shift is text that was put into the generated code after the map was made.
type shift struct{ line, column, by int } // 0-based

const open = wrap.Open

// Compile returns the program, or a RunError of kind syntax with its position
// in the code as given.
func Compile(code string) (*Program, *messages.RunError) {
	lines := strings.Split(code, "\n")
	body := wrap.Unfence(code)
	p, err := compile(body, open)
	// An object literal in statement position is a block to the parser, and a
	// statement that folds to a constant is dropped by the printer: both may be
	// whole expressions.
	if wrap.LooksLikeObject(body) || err == nil && p.empty() && strings.TrimSpace(body) != "" {
		prefix, object := wrap.Object(body)
		if q, bad := compile(object, prefix); bad == nil {
			p, err = q, nil
		}
	}
	if err != nil {
		return nil, explain(err, lines, len(open))
	}
	p.lines = lines
	return p, nil
}

func compile(body, prefix string) (*Program, *api.Message) {
	r := api.Transform(wrap.Around(prefix, body), api.TransformOptions{
		Loader:         api.LoaderTS,
		Target:         api.ES2022,
		Sourcefile:     Name,
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
	p := &Program{raw: r.Map}
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
	p.finish(head+open+"\n", inner)
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

func (p *Program) empty() bool { return strings.HasSuffix(p.JS, open+"\n});") }

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
func (p *Program) finish(head, inner string) {
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
		p.shift = shift{line: strings.Count(head+inner[:at], "\n"), column: 2, by: len("return ")}
		p.JS = head + inner[:at] + "return " + last + "});"
	}
}

type sourceMap struct {
	Mappings string `json:"mappings"`
}

func (p *Program) decoded() [][]segment {
	if p.segments == nil {
		var m sourceMap
		if json.Unmarshal(p.raw, &m) == nil {
			p.segments = decode(m.Mappings)
		}
		if p.segments == nil {
			p.segments = [][]segment{}
		}
	}
	return p.segments
}
