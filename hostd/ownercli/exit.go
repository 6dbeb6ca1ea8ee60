package ownercli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sophia/hostd/ownertext"
	"sophia/messages/problem"
)

func usage(format string, args ...any) error {
	return problem.New("usage", format, args...).WithHint("See --help.")
}

// PrintError says what happened, what to do, and the code; or, with --json,
// the same as one value on standard output.
func (a *App) PrintError(err error) {
	p := ownertext.Presentable(err)
	if a.JSON {
		writeIndented(a.Out, map[string]*problem.Error{"error": p})
		return
	}
	fmt.Fprintf(a.Err, "sophia: %s\n", ownertext.Plain(p.Message, false))
	if len(p.Valid) > 0 {
		fmt.Fprintf(a.Err, "  valid: %s\n", ownertext.Plain(strings.Join(p.Valid, ", "), false))
	}
	if p.Hint != "" {
		fmt.Fprintf(a.Err, "  %s\n", ownertext.Plain(p.Hint, true))
	}
	fmt.Fprintf(a.Err, "  (%s)\n", p.Code)
}

func writeIndented(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
