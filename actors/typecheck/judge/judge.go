package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Diagnostic is what a compiler complains of. Line and Character are 0-based and
// in UTF-16 units, as the language server protocol has them, in the code as its
// author wrote it.
type Diagnostic struct {
	Code            int
	Line, Character int
	Message         string
}

// Finding is a complaint that is told.
type Finding struct {
	Line, Column int // 1-based, in characters
	Message      string
	Hint         string
}

// Known are the names that the code may use.
type Known struct {
	Types   []string // declared by Sophia, without their namespace
	Methods []string // of sophia
}

// Judge keeps those complaints that are about mistakes, in the code's order.
func Judge(code string, complaints []Diagnostic, known Known) []Finding {
	s, ok := newSnippet(code, known.Types)
	if !ok {
		return nil
	}
	lines := strings.Split(code, "\n")
	var out []Finding
	for _, d := range complaints {
		at, column := offset(lines, d.Line, d.Character)
		i, ok := slices.BinarySearchFunc(s.toks, at, func(t token, at int) int { return t.at - at })
		if at < 0 || !ok && !(i > 0 && i <= len(s.toks)) {
			continue
		}
		if !ok {
			i--
		}
		if message, hint := s.judge(d, i, known); message != "" {
			out = append(out, Finding{Line: d.Line + 1, Column: column, Message: message, Hint: hint})
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.CompactFunc(out, func(a, b Finding) bool { return a.Line == b.Line && a.Column == b.Column })
}

// offset finds the byte of a position, and its column in characters.
func offset(lines []string, line, character int) (at, column int) {
	if line < 0 || line >= len(lines) || character < 0 {
		return -1, 0
	}
	for _, l := range lines[:line] {
		at += len(l) + 1
	}
	for i, r := range lines[line] {
		if character <= 0 {
			return at + i, utf8.RuneCountInString(lines[line][:i]) + 1
		}
		if character--; r > 0xffff {
			character--
		}
	}
	return at + len(lines[line]), utf8.RuneCountInString(lines[line]) + 1
}

var (
	missingProperty = regexp.MustCompile(`^Property '([^']+)' does not exist on type '([^\n]+?)'\.(?: Did you mean '([^']+)'\?)?`)
	missingName     = regexp.MustCompile(`^Cannot find name '([^']+)'`)
	notIterable     = regexp.MustCompile(`^Type '([^\n]+?)' must have a '\[Symbol\.iterator\]\(\)'`)
	notCallable     = regexp.MustCompile(`^This expression is not callable\.\n\s*Type '([^\n]+?)' has no call signatures`)
	notAssignable   = regexp.MustCompile(`^(?:Argument of type|Type) '([^\n]+)' is not assignable to (?:parameter of )?type '([^\n]+)'\.`)
	leftOut         = regexp.MustCompile(`^(?:Property '([^']+)' is missing in type|Type '[^\n]+' is missing the following properties from type)`)
	inCommon        = regexp.MustCompile(`^Type '([^\n]+)' has no properties in common with type`)
)

// judge returns what is told of one complaint, or nothing.
func (s *snippet) judge(d Diagnostic, i int, known Known) (message, hint string) {
	if s.caught(i) {
		return "", ""
	}
	switch d.Code {
	case 2339, 2551:
		return s.property(d.Message, i, known)
	case 2304, 2552:
		return s.name(d.Message, known)
	case 2488:
		if m := notIterable.FindStringSubmatch(d.Message); m != nil && s.ours(m[1]) {
			return first(d.Message), remedy(m[1], "iterate '.items': a list result is the envelope { items, total, cursor? }")
		}
	case 2349:
		if m := notCallable.FindStringSubmatch(d.Message); m != nil && s.ours(m[1]) {
			return fmt.Sprintf("This is not a function: its type is %s", m[1]), remedy(m[1], "")
		}
	case 2588, 2448:
		return first(d.Message), ""
	case 2322, 2345, 2353, 2554, 2555, 2559, 2561, 2739, 2740, 2741, 2769:
		return s.arguments(d, i)
	}
	return "", ""
}

func first(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return strings.TrimSuffix(line, ".")
}

func remedy(of, otherwise string) string {
	if strings.HasPrefix(of, "Promise<") {
		return "Write await before the call."
	}
	return otherwise
}

// What a list result is asked for by code that takes it for something else.
var envelope = []string{"hits", "results", "rows", "records", "matches", "entries", "list", "data", "count", "length",
	"map", "filter", "forEach", "slice", "find", "reduce", "some", "every", "sort", "flatMap", "join", "at"}

func (s *snippet) property(text string, i int, known Known) (message, hint string) {
	m := missingProperty.FindStringSubmatch(text)
	if m == nil || !s.ours(m[2]) {
		return "", ""
	}
	name, of, near := m[1], m[2], m[3]
	if of == "Methods" || of == "Sophia.Methods" {
		// Reading it throws, guarded or not.
		hint = "Object.keys(sophia) lists what this connection can call."
		if near != "" {
			hint = fmt.Sprintf("Did you mean sophia.%s?", near)
		} else if near := likeMethod(name, known.Methods); near != "" {
			hint = fmt.Sprintf("Did you mean sophia.%s?", near)
		}
		return fmt.Sprintf("sophia.%s is not a method that this connection can call", name), hint
	}
	if s.written[name] || s.guarded[name] || s.has["[]="] || s.keys[name] && (s.has["assign"] || s.has["defineProperty"] || s.has["defineProperties"]) {
		return "", ""
	}
	if s.at(i-1) != "." { // in a pattern, where a default makes it optional
		if s.at(i+1) == "=" || s.at(i+1) == ":" && s.at(i+3) == "=" {
			return "", ""
		}
	}
	switch {
	case strings.HasPrefix(of, "Promise<"):
		if name == "then" || name == "catch" || name == "finally" {
			return "", ""
		}
		hint = "Write await before the call."
	case near != "":
		hint = fmt.Sprintf("Did you mean '%s'?", near)
	case slices.Contains(envelope, name) && strings.Contains(of, "Page<"):
		hint = "Read '.items' and '.total': a list result is the envelope { items, total, cursor? }."
	case strings.HasSuffix(of, "[]"):
		hint = "It is a list: read it of one item, as in .map(x => x." + name + ")."
	default:
		hint = "sophia.get_sdk_types shows the type."
	}
	return fmt.Sprintf("Property '%s' does not exist on %s", name, of), hint
}

// likeMethod finds a method that is written in another way.
func likeMethod(name string, methods []string) string {
	bare := strings.ToLower(strings.NewReplacer("_", "", ".", "", "sophia", "").Replace(name))
	for _, m := range methods {
		if strings.ToLower(m) == bare {
			return m
		}
	}
	return ""
}

func (s *snippet) name(text string, known Known) (message, hint string) {
	m := missingName.FindStringSubmatch(text)
	if m == nil || s.assigned[m[1]] || s.asked[m[1]] || s.scatters || s.has["globalThis"] || s.has["eval"] || s.has["with"] {
		return "", ""
	}
	if like := likeMethod(m[1], known.Methods); like != "" {
		hint = fmt.Sprintf("Did you mean sophia.%s?", like)
	}
	return fmt.Sprintf("'%s' is not defined", m[1]), hint
}

// arguments judges a complaint on the arguments of a sophia call.
func (s *snippet) arguments(d Diagnostic, i int) (message, hint string) {
	open, ok := s.sophiaCall(i)
	if !ok || s.has["allSettled"] || s.has["catch"] || s.rejected(open) {
		return "", ""
	}
	method := "sophia." + s.at(open-1)
	lines := strings.Split(d.Message, "\n")
	if d.Code == 2769 {
		lines = lines[min(2, len(lines)-1):] // what the last overload says
	}
	for j := range lines {
		lines[j] = strings.TrimSpace(lines[j])
	}
	last := lines[len(lines)-1]
	switch {
	case strings.HasPrefix(last, "Expected "):
		if strings.HasPrefix(last, "Expected 0 ") && s.at(open+1) == "{" && s.at(open+2) == "}" {
			return "", "" // no argument at all, politely
		}
		if strings.HasSuffix(last, "got 0.") {
			return method + " needs arguments", fmt.Sprintf("Give it one object of named arguments: %s({ … }).", method)
		}
		return method + " takes one object of named arguments", ""
	case strings.HasPrefix(last, "Object literal may only specify known properties"):
		name, near := excess(last)
		if near != "" {
			hint = fmt.Sprintf("Did you mean '%s'?", near)
		}
		return fmt.Sprintf("%s has no argument '%s'", method, name), hint
	}
	if m := leftOut.FindStringSubmatch(last); m != nil {
		if !s.literal(i) {
			return "", ""
		}
		if m[1] != "" {
			return fmt.Sprintf("%s needs the argument '%s'", method, m[1]), ""
		}
		return fmt.Sprintf("%s needs more arguments: %s", method, strings.TrimSuffix(last[strings.LastIndex(last, "':")+2:], ".")), ""
	}
	if m := inCommon.FindStringSubmatch(last); m != nil {
		if k, _ := s.kindOf(m[1]); k == "" && !strings.HasPrefix(m[1], "Promise<") {
			return "", ""
		}
		return method + " takes one object of named arguments", fmt.Sprintf("As in %s({ … }).", method)
	}
	// Each line says why the one above it is so: the last is about the innermost.
	m := notAssignable.FindStringSubmatch(last)
	if m == nil || !s.clash(m[1], m[2]) {
		return "", ""
	}
	if strings.HasPrefix(m[1], "Promise<") {
		hint = "Write await before the call."
	}
	return fmt.Sprintf("%s: %s is given where %s is needed", method, m[1], m[2]), hint
}

// rejected says whether the call's promise is looked at for errors.
func (s *snippet) rejected(open int) bool {
	end := s.toks[open].partner
	return s.at(end+1) == "." && (s.at(end+2) == "catch" || s.at(end+2) == "then")
}

var excessProperty = regexp.MustCompile(`(?:and|but) '([^']+)' does not exist in type '.*?'\.(?: Did you mean to write '([^']+)'\?)?$`)

func excess(line string) (name, near string) {
	if m := excessProperty.FindStringSubmatch(line); m != nil {
		return m[1], m[2]
	}
	return "…", ""
}
