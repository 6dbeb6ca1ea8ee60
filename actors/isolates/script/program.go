package script

// Name is the file name under which a snippet runs; its stack frames carry it.
const Name = "snippet"

// Program is a compiled snippet. As JSON it goes from the compiler to the
// worker.
type Program struct {
	// JS is a script whose completion value is an async function without
	// parameters: the snippet.
	JS string `json:"js"`
	// Sole says that the snippet was nothing but a function. If that is also what
	// it returns, the function is the program and is to be called.
	Sole bool `json:"sole,omitempty"`
	// Lines are those of the code as given.
	Lines []string `json:"lines"`
	// Mappings are those of a source map, made before Shift.
	Mappings string `json:"mappings"`
	Shift    Shift  `json:"shift"`

	segments [][]segment // decoded when first asked for
}

// Shift is text that was put into the generated code after the map was made:
// By columns, from a 0-based position on.
type Shift struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	By     int `json:"by"`
}

func (p *Program) decoded() [][]segment {
	if p.segments == nil {
		p.segments = decode(p.Mappings)
	}
	return p.segments
}
