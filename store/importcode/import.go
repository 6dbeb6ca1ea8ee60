package importcode

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// maxFile is the largest file that is parsed.
const maxFile = 4 << 20

// group is how many rows one commit writes.
const group = 500

// Folder is the workspace to read.
type Folder struct {
	Workspace string // ws-…
	Path      string // absolute
	Entity    string
}

// Summary counts the graph, as it is after the import.
type Summary struct {
	Modules int      `json:"modules"`
	Symbols int      `json:"symbols"`
	Calls   int      `json:"calls"`
	Written int      `json:"written"` // rows that changed
	Removed int      `json:"removed"`
	Broken  []string `json:"broken"` // files that could not be parsed
}

// Import brings the code graph of a workspace up to date. It can be cut off
// anywhere and done again. Code: folder_not_read.
func Import(ctx context.Context, db *store.DB, w store.Writer, cause store.Cause, f Folder) (Summary, error) {
	files, mods, err := read(ctx, f.Path)
	if err != nil {
		return Summary{}, err
	}
	g := parse(f.Workspace, f.Entity, files, mods)
	sum := Summary{Modules: len(g.Modules), Symbols: len(g.Symbols), Calls: len(g.Calls), Broken: append([]string{}, g.Broken...)}
	r := db.View(store.Owner())
	defer r.Close()
	var todo []func(*store.Tx) error
	if err := plan(r, tables.Modules, f.Workspace, "workspace", g.Modules, func(m *tables.Module) string { return m.ID }, &todo, &sum); err != nil {
		return sum, err
	}
	if err := plan(r, tables.Symbols, f.Workspace, "file", g.Symbols, func(s *tables.Symbol) string { return s.ID }, &todo, &sum); err != nil {
		return sum, err
	}
	if err := plan(r, tables.Calls, f.Workspace, "workspace", g.Calls, func(c *tables.Call) string { return c.ID }, &todo, &sum); err != nil {
		return sum, err
	}
	for some := range slices.Chunk(todo, group) {
		if _, err := w.Write(ctx, cause, func(tx *store.Tx) error {
			for _, do := range some {
				if err := do(tx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// plan compares rows as they are with how they should be.
func plan[R any](r *store.Reader, t *store.Table[R], workspace, index string, want []R, key func(*R) string, todo *[]func(*store.Tx) error, sum *Summary) error {
	all, err := t.All(r, store.Query[R]{Index: index, Prefix: store.Tuple{workspace}})
	if err != nil {
		return err
	}
	have := make(map[string]R, len(all))
	for _, row := range all {
		have[key(&row)] = row
	}
	for _, row := range want {
		k := key(&row)
		old, ok := have[k]
		delete(have, k)
		if ok && reflect.DeepEqual(old, row) {
			continue
		}
		sum.Written++
		*todo = append(*todo, func(tx *store.Tx) error { return t.Put(tx, row) })
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		sum.Removed++
		*todo = append(*todo, func(tx *store.Tx) error {
			err := t.Delete(tx, k)
			if problem.CodeOf(err) == "not_found" {
				return nil
			}
			return err
		})
	}
	return nil
}

// read collects the workspace's Go files and the module paths of its go.mod files.
func read(ctx context.Context, dir string) (files []source, mods map[string]string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, problem.Wrap(err, "folder_not_read", "the folder %s can't be read", dir).WithHint("Is the path right, and may Sophia read it?")
	}
	defer root.Close()
	mods = map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == ".":
			return err
		case err != nil:
			return nil
		case e.IsDir():
			if b := path.Base(name); name != "." && (strings.HasPrefix(b, ".") || strings.HasPrefix(b, "_") || b == "node_modules" || b == "vendor" || b == "bin" || b == "testdata") {
				return fs.SkipDir // as the go command does
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		base := path.Base(name)
		if base != "go.mod" && (path.Ext(base) != ".go" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return nil
		}
		if info, err := e.Info(); err != nil || info.Size() > maxFile {
			return nil
		}
		content, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		if base == "go.mod" {
			if m := modulePath(string(content)); m != "" {
				mods[path.Dir(name)] = m
			}
			return nil
		}
		files = append(files, source{name, content})
		return nil
	})
	return files, mods, err
}

// modulePath is the module line of a go.mod.
func modulePath(mod string) string {
	for line := range strings.Lines(mod) {
		line, _, _ = strings.Cut(line, "//")
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module"); ok && rest != strings.TrimLeft(rest, " \t") {
			return strings.Trim(strings.TrimSpace(rest), `"`+"`")
		}
	}
	return ""
}
