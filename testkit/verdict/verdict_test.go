package main

import (
	"strings"
	"testing"
)

const run = `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: root can read everything\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
`

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		ok   bool
		last string
		has  string
	}{
		"all is well":      {run + `{"Action":"pass","Package":"p","Elapsed":1}`, true, "1 passed, 0 failed, 1 skipped", "skip  p TestB: b_test.go:3: root can read everything"},
		"unexpected skip":  {run + `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: no tsc\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestC"}`, false, "1 passed, 0 failed, 2 skipped", "not expected to be skipped: p TestC: c_test.go:9: no tsc"},
		"silent skip":      {run + `{"Action":"skip","Package":"p","Test":"TestC"}`, false, "1 passed, 0 failed, 2 skipped", "no reason given"},
		"failure":          {run + `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: wrong\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestC"}`, false, "1 passed, 1 failed, 1 skipped", "c_test.go:9: wrong"},
		"package panics":   {run + `{"Action":"output","Package":"p","Output":"panic: oh\n"}` + "\n" + `{"Action":"fail","Package":"p"}`, false, "1 passed, 0 failed, 1 skipped", "panic: oh"},
		"does not build":   {run + `{"Action":"build-output","Package":"","Output":"x.go:1: bad\n"}` + "\n" + `{"Action":"build-fail"}`, false, "1 passed, 0 failed, 1 skipped", "x.go:1: bad"},
		"nothing ran":      {"", false, "0 passed, 0 failed, 0 skipped", "no test ran"},
		"what is not JSON": {run + "go: cannot find module\n", true, "1 passed, 0 failed, 1 skipped", "go: cannot find module"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			ok, err := judge(strings.NewReader(tc.in), &out, []string{"root can read everything"})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if err != nil || ok != tc.ok || lines[len(lines)-1] != tc.last || !strings.Contains(out.String(), tc.has) {
				t.Errorf("ok %v, %v:\n%s", ok, err, out.String())
			}
		})
	}
}
