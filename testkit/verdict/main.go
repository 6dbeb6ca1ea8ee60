// Command verdict reads the output of `go test -json` on its standard input,
// prints what a person wants to see of it, and decides: it exits 1 when a test
// failed, when none ran, or when one was skipped for a reason that is not
// expected here. The last line is "N passed, N failed, N skipped".
//
//	go test -json ./... | go run ./testkit/verdict
//
// Expected reasons are in expected.txt, one a line.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed expected.txt
var expected string

func main() {
	ok, err := judge(os.Stdin, os.Stdout, reasons(expected))
	if err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// reasons are the lines of a list, without comments.
func reasons(list string) (out []string) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

type key struct{ pkg, test string }

// judge prints packages as they end, the output of what failed, and every
// skip with its reason.
func judge(in io.Reader, out io.Writer, expected []string) (ok bool, err error) {
	output := map[key]*strings.Builder{}
	var passed, failed, skipped int
	var unexpected []string
	ok = true
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // a build error, before there is JSON
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if output[k] == nil {
				output[k] = new(strings.Builder)
			}
			output[k].WriteString(e.Output)
			continue
		case "build-fail":
			ok = false
			show(out, output[k])
			continue
		case "pass", "fail", "skip":
		default:
			continue
		}
		if e.Test == "" {
			if e.Action == "fail" {
				ok = false
				show(out, output[k])
			}
			if e.Action != "skip" { // a package without tests
				fmt.Fprintf(out, "%-4s  %-45s %6.1fs\n", e.Action, e.Package, e.Elapsed)
			}
			continue
		}
		switch e.Action {
		case "pass":
			passed++
		case "fail":
			failed++
			ok = false
			show(out, output[k])
		case "skip":
			skipped++
			why := reason(output[k])
			fmt.Fprintf(out, "skip  %s %s: %s\n", e.Package, e.Test, why)
			if !contains(why, expected) {
				unexpected = append(unexpected, e.Package+" "+e.Test+": "+why)
			}
		}
		delete(output, k)
	}
	for _, u := range unexpected {
		ok = false
		fmt.Fprintln(out, "not expected to be skipped:", u)
	}
	if passed == 0 {
		ok = false
		fmt.Fprintln(out, "no test ran")
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return ok, lines.Err()
}

func show(out io.Writer, text *strings.Builder) {
	if text != nil {
		io.WriteString(out, text.String())
	}
}

// reason is what t.Skip was told: the line that is no frame of go test's own.
func reason(text *strings.Builder) string {
	if text == nil {
		return "no reason given"
	}
	var why []string
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		why = append(why, line)
	}
	if len(why) == 0 {
		return "no reason given"
	}
	return strings.Join(why, " ")
}

func contains(why string, expected []string) bool {
	for _, e := range expected {
		if strings.Contains(why, e) {
			return true
		}
	}
	return false
}
