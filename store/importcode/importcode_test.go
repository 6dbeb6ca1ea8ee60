package importcode_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sophia/store"
	"sophia/store/importcode"
	"sophia/store/tables"
	"sophia/testkit/storetest"
)

func workspace(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, db *store.DB, root string) importcode.Summary {
	t.Helper()
	sum, err := importcode.Import(context.Background(), db, db, store.System("importer", ""), importcode.Folder{Workspace: "ws-1", Path: root})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

var example = map[string]string{
	"go.mod": "module example.com/app // the app\n\ngo 1.26\n",
	"main.go": `// Command app does it. Really.
package main

import "example.com/app/lib"

func main() {
	d := lib.Open[int]("x")
	d.Write()
	helper()
}

func helper() {}
`,
	"lib/lib.go": `// Package lib is a library.
package lib

// Max is a limit.
const Max = 3

var hidden = compute()

// DB is open.
type DB[T any] struct{ n T }

// Open opens.
func Open[T any](name string) *DB[T] { return &DB[T]{} }

func (d *DB[T]) Write() { compute() }

func (d DB[T]) String() string { return "" }

func compute() int { return Max }
`,
	"lib/lib_test.go": "package lib_test\n\nimport \"example.com/app/lib\"\n\nfunc use() { lib.Open[string](\"y\") }\n",
	"broken.go":       "package main\n\nfunc broken( {\n",
	"vendor/v/v.go":   "package v\n",
	"testdata/t/t.go": "package t\n",
	"nested/go.mod":   "module example.com/nested\n",
	"nested/sub/n.go": "package sub\n\nfunc N() {}\n",
}

func TestImport_TheGraphOfAWorkspace(t *testing.T) {
	db, _ := storetest.InMemory(t)
	root := workspace(t, example)
	sum := run(t, db, root)
	if sum.Modules != 4 || len(sum.Broken) != 1 {
		t.Errorf("%+v", sum)
	}
	r := db.View(store.Owner())
	defer r.Close()
	lib, err := tables.Modules.Get(r, "ws-1:example.com/app/lib")
	if err != nil || lib.Doc != "Package lib is a library." || len(lib.Exports) != 3 || lib.Kind != "library" {
		t.Errorf("%+v, %v", lib, err)
	}
	if _, err := tables.Modules.Get(r, "ws-1:example.com/nested/sub"); err != nil {
		t.Error(err)
	}
	write, err := tables.Symbols.Get(r, "ws-1:example.com/app/lib.(*DB).Write")
	if err != nil || write.Start != 15 || write.End != 15 || write.Signature != "func (d *DB[T]) Write()" || write.Kind != "method" || !write.Exported {
		t.Errorf("%+v, %v", write, err)
	}
	named, err := tables.Symbols.All(r, store.Query[tables.Symbol]{Index: "name", Prefix: store.Tuple{"String"}})
	if err != nil || len(named) != 1 || named[0].Name != "DB.String" {
		t.Errorf("%+v, %v", named, err)
	}
	callers := func(callee string) map[string]bool {
		calls, err := tables.Calls.All(r, store.Query[tables.Call]{Index: "callee", Prefix: store.Tuple{callee}})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, c := range calls {
			out[c.Caller] = c.Exact
		}
		return out
	}
	main := "ws-1:example.com/app.main@main.go:6:1"
	if got := callers("ws-1:example.com/app/lib.Open"); len(got) != 2 || !got[main] || !got["ws-1:example.com/app/lib_test.use"] {
		t.Errorf("callers of Open: %v", got)
	}
	if got := callers("ws-1:example.com/app/lib.(*DB).Write"); len(got) != 1 || got[main] {
		t.Errorf("callers of Write, by name alone: %v", got)
	}
	if got := callers("ws-1:example.com/app/lib.compute"); len(got) != 2 || !got["ws-1:example.com/app/lib.hidden"] {
		t.Errorf("callers of compute: %v", got)
	}
}

func TestImport_AgainReplacesOnlyWhatChanged(t *testing.T) {
	db, _ := storetest.InMemory(t)
	root := workspace(t, example)
	run(t, db, root)
	if sum := run(t, db, root); sum.Written != 0 || sum.Removed != 0 {
		t.Errorf("nothing changed, but %+v", sum)
	}
	if err := os.WriteFile(filepath.Join(root, "nested/sub/n.go"), []byte("package sub\n\nfunc M() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum := run(t, db, root); sum.Written != 2 || sum.Removed != 1 { // the module and M; N
		t.Errorf("%+v", sum)
	}
	if rep, err := db.Verify(); err != nil || len(rep.Problems) > 0 {
		t.Errorf("%v, %v", rep.Problems, err)
	}
}

func TestImport_ThisVeryCode(t *testing.T) {
	db, _ := storetest.InMemory(t)
	sum := run(t, db, "..")
	r := db.View(store.Owner())
	defer r.Close()
	calls, err := tables.Calls.All(r, store.Query[tables.Call]{Index: "callee", Prefix: store.Tuple{"ws-1:importcode.parse"}})
	if err != nil || !slices.ContainsFunc(calls, func(c tables.Call) bool { return c.Caller == "ws-1:importcode.Import" && c.Exact }) {
		t.Errorf("%+v, %v (%d symbols)", calls, err, sum.Symbols)
	}
}
