package judge

// snippet is what is known of the code as a whole.
type snippet struct {
	code     string
	toks     []token
	declared map[string]bool // types

	assigned map[string]bool // names that are assigned somewhere
	written  map[string]bool // properties that are written somewhere
	guarded  map[string]bool // properties that are asked for before they are used
	keys     map[string]bool // of object literals
	asked    map[string]bool // names behind typeof
	has      map[string]bool // words in the code
	scatters bool            // assigns to a pattern
}

func newSnippet(code string, types []string) (*snippet, bool) {
	toks, ok := lex(code)
	if !ok {
		return nil, false
	}
	s := &snippet{code: code, toks: toks, declared: map[string]bool{}, assigned: map[string]bool{}, written: map[string]bool{},
		guarded: map[string]bool{}, keys: map[string]bool{}, asked: map[string]bool{}, has: map[string]bool{}}
	for _, t := range types {
		s.declared[t] = true
	}
	for i := range toks {
		s.survey(i)
	}
	return s, true
}

func (s *snippet) at(i int) string {
	if i < 0 || i >= len(s.toks) {
		return ""
	}
	if s.toks[i].kind != word && s.toks[i].kind != punct {
		return ""
	}
	return s.toks[i].s
}

// survey notes what one token tells of the whole.
func (s *snippet) survey(i int) {
	t := s.toks[i]
	if t.kind == text {
		s.guarded[t.s] = true // 'name' in x, hasOwn(x, 'name'), x['name']
		return
	}
	if t.kind == punct {
		if (t.s == "]" || t.s == "}") && s.at(i+1) == "=" {
			switch before := s.at(t.partner - 1); before {
			case "const", "let", "var":
			default:
				s.scatters = true
				if t.s == "]" { // x[key] = …: any key may be written
					s.has["[]="] = true
				}
			}
		}
		return
	}
	if t.kind != word {
		return
	}
	s.has[t.s] = true
	prev, next := s.at(i-1), s.at(i+1)
	property := prev == "." || prev == "?."
	switch {
	case (prev == "interface" || prev == "type" || prev == "class" || prev == "enum") && !property:
		delete(s.declared, t.s)
	case prev == "typeof":
		s.asked[t.s] = true
	}
	if writes[next] || prev == "++" || prev == "--" || next == "of" || next == "in" {
		if property {
			s.written[t.s] = true
		} else {
			s.assigned[t.s] = true
		}
	}
	if next == ":" && (prev == "{" || prev == ",") || (prev == "{" || prev == ",") && (next == "," || next == "}") {
		s.keys[t.s] = true
	}
	if property && s.guards(i) {
		s.guarded[t.s] = true
	}
}

var writes = map[string]bool{"=": true, "+=": true, "-=": true, "*=": true, "/=": true, "%=": true, "**=": true, "<<=": true, ">>=": true, ">>>=": true,
	"&=": true, "|=": true, "^=": true, "&&=": true, "||=": true, "??=": true, "++": true, "--": true}

var (
	guardsBehind = map[string]bool{"?.": true, "??": true, "||": true, "&&": true, "?": true}
	guardsBefore = map[string]bool{"!": true, "typeof": true, "||": true, "??": true, "&&": true, "delete": true, "void": true}
	tests        = map[string]bool{"filter": true, "some": true, "every": true, "find": true, "findIndex": true, "findLast": true, "Boolean": true, "isArray": true, "if": true, "while": true}
)

// guards says whether the property at i is read to see whether it is there.
func (s *snippet) guards(i int) bool {
	if s.at(i-1) == "?." || guardsBehind[s.at(i+1)] {
		return true
	}
	switch s.at(i + 1) {
	case "===", "!==", "==", "!=":
		if n := s.at(i + 2); n == "undefined" || n == "null" || n == "void" {
			return true
		}
	}
	if guardsBefore[s.at(s.chainStart(i)-1)] {
		return true
	}
	// In a condition, or what a predicate returns.
	for j := s.toks[i].within; j >= 0; j = s.toks[j].within {
		if s.toks[j].s == "(" {
			return tests[s.at(j-1)]
		}
	}
	return false
}

// chainStart is where the expression begins that the property at i is read of:
// a of a.b(c)[d].e.
func (s *snippet) chainStart(i int) int {
	j := i
	for {
		switch p := s.at(j - 1); {
		case p == "." || p == "?.":
			j -= 2
			for j >= 0 && (s.at(j) == ")" || s.at(j) == "]" || s.at(j) == "!") {
				if s.at(j) == "!" {
					j--
					continue
				}
				j = s.toks[j].partner
				if k := j - 1; k >= 0 && (s.toks[k].kind == word && !keyword[s.toks[k].s] || s.at(k) == ")" || s.at(k) == "]") {
					j = k
				} else if s.at(k) == "?." {
					j = k - 1
				} else {
					break
				}
			}
			if j < 0 {
				return 0
			}
		case p == "await" || p == "(" && s.at(j) == "await":
			j--
		default:
			return j
		}
	}
}

// caught says whether an error thrown at i stays within the snippet.
func (s *snippet) caught(i int) bool {
	for j := s.toks[i].within; j >= 0; j = s.toks[j].within {
		if s.toks[j].s == "{" && s.at(j-1) == "try" {
			return true
		}
	}
	return false
}

// sophiaCall finds the call of a sophia method that the token at i is of: its
// name, or something in its arguments that is in no other call.
func (s *snippet) sophiaCall(i int) (open int, ok bool) {
	if s.at(i+1) == "(" && s.isMethod(i) {
		return i + 1, true
	}
	for j := i; j >= 0; j = s.toks[j].within {
		if s.toks[j].s == "(" && j != i {
			return j, s.isMethod(j - 1)
		}
		if s.toks[j].s == "{" && s.at(j-1) == "=>" {
			return 0, false
		}
	}
	return 0, false
}

func (s *snippet) isMethod(i int) bool {
	return i >= 2 && s.toks[i].kind == word && s.at(i-1) == "." && s.at(i-2) == "sophia" && s.at(i-3) != "."
}

// literal says whether the token at i opens an object that is all written down:
// nothing is spread into it and no key computed.
func (s *snippet) literal(i int) bool {
	if s.at(i) != "{" || s.toks[i].partner < 0 {
		return false
	}
	for j := i + 1; j < s.toks[i].partner; j++ {
		if s.toks[j].within == i && (s.toks[j].s == "..." && s.toks[j].kind == punct || s.at(j) == "[" && (s.at(j-1) == "{" || s.at(j-1) == ",")) {
			return false
		}
	}
	return true
}
