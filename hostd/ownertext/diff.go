package ownertext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Edit is one line of a diff: Kind is ' ', '-' or '+'.
type Edit struct {
	Kind byte
	Line string
}

// maxDiff bounds the product of the two lengths that are compared line by
// line; larger texts are shown as one replaced by the other.
const maxDiff = 4 << 20

// Diff compares two texts by lines, along a longest common subsequence.
func Diff(before, after string) []Edit {
	a, b := lines(before), lines(after)
	var head, tail []Edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, Edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, Edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	edits := append(head, middle(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		edits = append(edits, tail[i])
	}
	return edits
}

func middle(a, b []string) []Edit {
	var edits []Edit
	if (len(a)+1)*(len(b)+1) > maxDiff {
		for _, l := range a {
			edits = append(edits, Edit{'-', l})
		}
		for _, l := range b {
			edits = append(edits, Edit{'+', l})
		}
		return edits
	}
	// common[i][j] is the length of the longest common subsequence of a[i:], b[j:].
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			edits = append(edits, Edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			edits = append(edits, Edit{'-', a[i]})
			i++
		default:
			edits = append(edits, Edit{'+', b[j]})
			j++
		}
	}
	return edits
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// Indented is a row as it is shown: JSON over several lines, "" when there is
// no row.
func Indented(row json.RawMessage) string {
	if NoRow(row) {
		return ""
	}
	var out bytes.Buffer
	if json.Indent(&out, row, "", "  ") != nil {
		return string(row)
	}
	return out.String()
}

// around is how many unchanged lines are shown around a change.
const around = 3

// WriteDiff prints a diff; the functions style its lines.
func WriteDiff(w io.Writer, edits []Edit, removed, added, other func(string) string) {
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.Kind != ' ' {
			for j := max(0, i-around); j < min(len(edits), i+around+1); j++ {
				near[j] = true
			}
		}
	}
	skipped := false
	for i, e := range edits {
		if !near[i] {
			skipped = true
			continue
		}
		if skipped {
			fmt.Fprintln(w, other("  …"))
			skipped = false
		}
		style := other
		switch e.Kind {
		case '-':
			style = removed
		case '+':
			style = added
		}
		fmt.Fprintln(w, style(string(e.Kind)+" "+Plain(e.Line, true)))
	}
	if skipped {
		fmt.Fprintln(w, other("  …"))
	}
}

// NoRow says whether a row is absent: empty, or null.
func NoRow(row json.RawMessage) bool { return len(row) == 0 || string(row) == "null" }
