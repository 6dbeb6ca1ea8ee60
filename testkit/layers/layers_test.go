package layers

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// may says which of the top-level folders a folder's packages may import.
var may = map[string][]string{
	"messages": {"messages"},
	"store":    {"store", "messages"},
	"actors":   {"actors", "store", "messages"},
	"mcp":      {"mcp", "actors", "store", "messages"},
	"hostd":    {"hostd", "actors", "store", "messages"},
	"cmd":      {"cmd", "hostd", "mcp", "actors", "store", "messages"},
	"testkit":  {"testkit", "cmd", "hostd", "mcp", "actors", "store", "messages"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "sophia/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 50 {
		t.Fatalf("only %d packages found", len(all))
	}
	return all
}

func top(path string) string {
	rest, ours := strings.CutPrefix(path, "sophia/")
	if !ours {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func TestLayers_ArrowsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, known := may[top(p.ImportPath)]
		if !known {
			t.Errorf("%s is in no known folder", p.ImportPath)
		}
		for _, i := range p.Imports {
			if to := top(i); to != "" && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
			if top(p.ImportPath) == "messages" && strings.Contains(strings.Split(i, "/")[0], ".") {
				t.Errorf("%s imports %s, which is not of the standard library", p.ImportPath, i)
			}
		}
		last := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types", "misc"}, last) {
			t.Errorf("%s says nothing by its name", p.ImportPath)
		}
	}
}

func TestLayers_OnlyTheIsolateLinksV8(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Deps, "rogchap.com/v8go") && !strings.HasPrefix(p.ImportPath, "sophia/cmd/sophia-isolate") {
			t.Errorf("%s links V8", p.ImportPath)
		}
	}
}

// A snippet can exhaust the parser's stack, which ends the process.
func TestLayers_TheDaemonParsesNoSnippet(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath == "sophia/cmd/sophiad" && slices.Contains(p.Deps, "github.com/evanw/esbuild/pkg/api") {
			t.Errorf("%s links the compiler of snippets", p.ImportPath)
		}
	}
}
