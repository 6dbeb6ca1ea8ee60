package script

import (
	"strings"

	"sophia/actors/isolates/wrap"
)

// segment maps a generated column to a source position. All are 0-based.
// Source map revision 3: https://tc39.es/ecma426/
type segment struct{ column, sourceLine, sourceColumn int }

// decode reads the mappings of a map with one source. What is not a mapping
// ends the decoding: positions are a help, never a reason to fail.
func decode(mappings string) [][]segment {
	var lines [][]segment
	var sourceLine, sourceColumn int
	for group := range strings.SplitSeq(mappings, ";") {
		var line []segment
		column := 0
		for item := range strings.SplitSeq(group, ",") {
			if item == "" {
				continue
			}
			fields, ok := vlq(item)
			if !ok || len(fields) == 0 {
				return append(lines, line)
			}
			column += fields[0]
			if len(fields) >= 4 {
				sourceLine += fields[2]
				sourceColumn += fields[3]
				line = append(line, segment{column, sourceLine, sourceColumn})
			}
		}
		lines = append(lines, line)
	}
	return lines
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func vlq(s string) (fields []int, ok bool) {
	value, shift := 0, 0
	for i := range len(s) {
		digit := strings.IndexByte(alphabet, s[i])
		if digit < 0 || shift > 30 {
			return nil, false
		}
		value |= digit & 31 << shift
		shift += 5
		if digit&32 != 0 {
			continue
		}
		n := value >> 1
		if value&1 != 0 {
			n = -n
		}
		fields = append(fields, n)
		value, shift = 0, 0
	}
	return fields, shift == 0
}

// Leaves says whether anything of the code's 0-based lines from one on, and there
// from the column (of UTF-16 units) on, is left in JS.
func (p *Program) Leaves(line, column int) bool {
	if line == 0 {
		column += len(wrap.Open)
	}
	for _, generated := range p.decoded() {
		for _, s := range generated {
			if s.sourceLine < len(p.Lines) && (s.sourceLine > line || s.sourceLine == line && s.sourceColumn >= column) {
				return true
			}
		}
	}
	return false
}

// Position turns a 1-based position in JS into one in the code as given.
func (p *Program) Position(line, column int) (int, int, bool) {
	line, column = line-1, column-1
	if line == p.Shift.Line && column >= p.Shift.Column {
		column = max(p.Shift.Column, column-p.Shift.By)
	}
	lines := p.decoded()
	if line < 0 || line >= len(lines) {
		return 0, 0, false
	}
	var best *segment
	for i := range lines[line] {
		if s := &lines[line][i]; s.column <= column {
			best = s
		}
	}
	if best == nil {
		return 0, 0, false
	}
	l, c := best.sourceLine, best.sourceColumn
	if l == 0 {
		c -= len(wrap.Open)
	}
	if l >= len(p.Lines) || c < 0 {
		return 0, 0, false
	}
	return l + 1, c + 1, true
}
