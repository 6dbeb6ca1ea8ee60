package ownercli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"sophia/hostd/ownertext"
)

// print shows a result: with --json as it is, else by human.
func (a *App) print(result any, human func(w io.Writer)) error {
	if a.JSON {
		return writeIndented(a.Out, result)
	}
	out := bufio.NewWriter(a.Out)
	human(out)
	return out.Flush()
}

// table aligns rows under a header on a terminal, where a list without rows is
// a sentence; elsewhere it is tab-separated, without the header, for cut and awk.
func (a *App) table(w io.Writer, header []string, rows [][]string, empty string) {
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
		}
	}
	if !a.OutTTY {
		for _, row := range rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		return
	}
	if len(rows) == 0 {
		fmt.Fprintln(w, empty)
		return
	}
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	columns := a.columns()
	line := func(row []string, style func(string) string) {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell)+2))
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if columns > 0 && runewidth.StringWidth(text) > columns { // a row stays one row
			text = runewidth.Truncate(text, columns, "…")
		}
		fmt.Fprintln(w, style(text))
	}
	line(header, a.dim)
	for _, row := range rows {
		line(row, func(s string) string { return s })
	}
}

// columns is the terminal's width, 0 when it is not known.
func (a *App) columns() int {
	if a.Columns > 0 {
		return a.Columns
	}
	f, ok := a.Out.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	cols, _, err := term.GetSize(int(f.Fd())) // not size: a PTY without rows can have columns
	if err != nil {
		return 0
	}
	return cols
}

// fields prints label and value, one a line. What has no value is left out.
func (a *App) fields(w io.Writer, pairs [][2]string) {
	width := 0
	for _, p := range pairs {
		if p[1] != "" {
			width = max(width, runewidth.StringWidth(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, "%s%s  %s\n", a.dim(p[0]), strings.Repeat(" ", width-runewidth.StringWidth(p[0])), oneLine(p[1]))
		}
	}
}

// hint is a line about what to do next, for a person.
func (a *App) hint(w io.Writer, format string, args ...any) {
	if a.OutTTY {
		fmt.Fprintln(w, a.dim(fmt.Sprintf(format, args...)))
	}
}

// at is a time for a person: how long ago, and when.
func (a *App) at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", ago(t, a.now()), t.Local().Format(time.DateTime))
}

func (a *App) colour() bool {
	return a.OutTTY && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

func (a *App) style(code, s string) string {
	if !a.colour() || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *App) dim(s string) string    { return a.style("2", s) }
func (a *App) bold(s string) string   { return a.style("1", s) }
func (a *App) green(s string) string  { return a.style("32", s) }
func (a *App) red(s string) string    { return a.style("31", s) }
func (a *App) yellow(s string) string { return a.style("33", s) }

// oneLine makes text of others safe to print in one line.
func oneLine(s string) string { return ownertext.Plain(s, false) }

// diff prints what changes, with a few lines around each change.
func (a *App) diff(w io.Writer, before, after string) {
	ownertext.WriteDiff(w, ownertext.Diff(before, after), a.red, a.green, a.dim)
}

// ago is a time as one reads it in a table.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in " + short(-d)
	case d < time.Second:
		return "now"
	}
	return short(d) + " ago"
}

func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func brief(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

// leastColumns is the narrowest column in which text is broken into lines.
const leastColumns = 24

// wrapped breaks text between words into lines of at most columns; in a
// narrow column, or one of unknown width, it stays one line. No text is no line.
func wrapped(text string, columns int) []string {
	if text == "" {
		return nil
	}
	if columns < leastColumns {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case runewidth.StringWidth(line)+1+runewidth.StringWidth(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
