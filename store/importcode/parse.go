package importcode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"sophia/store/tables"
)

// Graph is what a workspace's code is made of.
type Graph struct {
	Modules []tables.Module
	Symbols []tables.Symbol
	Calls   []tables.Call
	Broken  []string // files that could not be parsed, with the reason
}

// source is one Go file.
type source struct {
	name    string // relative to the workspace, with slashes
	content []byte
}

// reader turns files into a graph.
type reader struct {
	workspace string
	entity    string
	fset      *token.FileSet
	graph     Graph

	modules map[string]*tables.Module // by ID
	defined map[string]string         // module ID + "." + name → symbol ID
	methods map[string][]string       // bare method name → symbol IDs
	pending []pendingCall
}

type pendingCall struct {
	call    tables.Call
	module  string            // ID of the caller's
	imports map[string]string // local name → import path
}

// parse reads Go files. mods maps a folder with a go.mod to its module path;
// files outside of all of them are named by their folder.
func parse(workspace, entity string, files []source, mods map[string]string) Graph {
	r := &reader{workspace: workspace, entity: entity, fset: token.NewFileSet(), modules: map[string]*tables.Module{},
		defined: map[string]string{}, methods: map[string][]string{}}
	for _, f := range files {
		r.file(f, mods)
	}
	r.resolve()
	for _, m := range r.modules {
		slices.Sort(m.Files)
		slices.Sort(m.Imports)
		m.Imports = slices.Compact(m.Imports)
		slices.Sort(m.Exports)
		m.Exports = slices.Compact(m.Exports)
		r.graph.Modules = append(r.graph.Modules, *m)
	}
	slices.SortFunc(r.graph.Modules, func(a, b tables.Module) int { return strings.Compare(a.ID, b.ID) })
	return r.graph
}

// importPath is how other code names the package in a folder.
func importPath(folder string, mods map[string]string) string {
	for at := folder; ; at = path.Dir(at) {
		if m, ok := mods[at]; ok {
			rest := strings.TrimPrefix(strings.TrimPrefix(folder, at), "/")
			if at == "." {
				rest = strings.TrimPrefix(folder, ".")
			}
			return path.Join(m, rest)
		}
		if at == "." || at == "/" {
			return folder
		}
	}
}

func (r *reader) file(f source, mods map[string]string) {
	parsed, err := parser.ParseFile(r.fset, f.name, f.content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		r.graph.Broken = append(r.graph.Broken, fmt.Sprintf("%s: %v", f.name, err))
	}
	if parsed == nil || parsed.Name == nil || parsed.Name.Name == "_" {
		return
	}
	name := importPath(path.Dir(f.name), mods)
	kind := "library"
	switch {
	case strings.HasSuffix(parsed.Name.Name, "_test"):
		name, kind = name+"_test", "test"
	case parsed.Name.Name == "main":
		kind = "program"
	}
	id := r.workspace + ":" + name
	m := r.modules[id]
	if m == nil {
		m = &tables.Module{ID: id, Workspace: r.workspace, Name: name, Language: "go", Kind: kind, Imports: []string{}, Exports: []string{}, Entity: r.entity}
		r.modules[id] = m
	}
	m.Files = append(m.Files, f.name)
	m.Lines += bytes.Count(f.content, []byte("\n"))
	if parsed.Doc != nil && m.Doc == "" {
		m.Doc = synopsis(parsed.Doc)
	}
	imports := map[string]string{}
	for _, im := range parsed.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			continue
		}
		m.Imports = append(m.Imports, p)
		local := path.Base(p)
		if v := strings.TrimLeft(local, "v"); v != local && strings.Trim(v, "0123456789") == "" && path.Dir(p) != "." {
			local = path.Base(path.Dir(p)) // …/name/v2
		}
		if im.Name != nil {
			local = im.Name.Name
		}
		imports[local] = p
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.function(m, f, d, imports)
		case *ast.GenDecl:
			r.general(m, f, d, imports)
		}
	}
}

func (r *reader) function(m *tables.Module, f source, d *ast.FuncDecl, imports map[string]string) {
	name, kind := d.Name.Name, "func"
	exported := d.Name.IsExported()
	if d.Recv != nil && len(d.Recv.List) > 0 {
		on, pointer := receiver(d.Recv.List[0].Type)
		kind = "method"
		exported = exported && ast.IsExported(on)
		name = on + "." + name
		if pointer {
			name = "(*" + on + ")." + d.Name.Name
		}
	}
	head := *d
	head.Body, head.Doc = nil, nil
	id := r.add(m, f, tables.Symbol{Name: name, Kind: kind, Exported: exported, Signature: r.print(&head), Doc: synopsis(d.Doc)}, d)
	if kind == "method" {
		r.methods[d.Name.Name] = append(r.methods[d.Name.Name], id)
	} else {
		r.defined[m.ID+"."+name] = id
	}
	if d.Body != nil {
		r.callsIn(d.Body, id, m.ID, imports)
	}
}

func (r *reader) general(m *tables.Module, f source, d *ast.GenDecl, imports map[string]string) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			text := s.Doc
			if text == nil {
				text = d.Doc
			}
			short := *s
			short.Doc, short.Comment = nil, nil
			id := r.add(m, f, tables.Symbol{Name: s.Name.Name, Kind: "type", Exported: s.Name.IsExported(), Signature: "type " + firstLines(r.print(&short)), Doc: synopsis(text)}, s)
			r.defined[m.ID+"."+s.Name.Name] = id
		case *ast.ValueSpec:
			kind := strings.ToLower(d.Tok.String())
			text := s.Doc
			if text == nil {
				text = d.Doc
			}
			for _, n := range s.Names {
				if n.Name == "_" {
					continue
				}
				id := r.add(m, f, tables.Symbol{Name: n.Name, Kind: kind, Exported: n.IsExported(), Signature: kind + " " + firstLines(r.print(s)), Doc: synopsis(text)}, s)
				r.defined[m.ID+"."+n.Name] = id
				for _, v := range s.Values {
					r.callsIn(v, id, m.ID, imports)
				}
			}
		}
	}
}

func (r *reader) add(m *tables.Module, f source, s tables.Symbol, n ast.Node) string {
	// Not adjusted: a //line comment must not name another file.
	from, to := r.fset.PositionFor(n.Pos(), false), r.fset.PositionFor(n.End(), false)
	if to.Offset < from.Offset { // a file with errors
		to = from
	}
	s.ID = m.ID + "." + s.Name
	if s.Kind == "func" && (s.Name == "init" || s.Name == "main" || s.Name == "_") || r.taken(s.ID) {
		s.ID += "@" + f.name + ":" + strconv.Itoa(from.Line) + ":" + strconv.Itoa(from.Column) // more than one may have the name
	}
	s.Workspace, s.Module, s.File, s.Entity = r.workspace, m.ID, f.name, r.entity
	s.Start, s.End = from.Line, to.Line
	sum := sha256.Sum256(f.content[min(from.Offset, len(f.content)):min(to.Offset, len(f.content))])
	s.Hash = hex.EncodeToString(sum[:8])
	r.graph.Symbols = append(r.graph.Symbols, s)
	if s.Exported && s.Kind != "method" {
		m.Exports = append(m.Exports, s.Name)
	}
	r.defined["\x00"+s.ID] = s.ID
	return s.ID
}

func (r *reader) taken(id string) bool { return r.defined["\x00"+id] != "" }

func (r *reader) callsIn(n ast.Node, caller, module string, imports map[string]string) {
	ast.Inspect(n, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun := c.Fun
		for { // generic instantiation
			switch x := fun.(type) {
			case *ast.IndexExpr:
				fun = x.X
				continue
			case *ast.IndexListExpr:
				fun = x.X
				continue
			case *ast.ParenExpr:
				fun = x.X
				continue
			}
			break
		}
		var name string
		switch x := fun.(type) {
		case *ast.Ident:
			name = x.Name
		case *ast.SelectorExpr:
			name = x.Sel.Name
			if id, ok := x.X.(*ast.Ident); ok {
				name = id.Name + "." + name
			} else {
				name = "_." + name
			}
		default:
			return true
		}
		at := r.fset.PositionFor(c.Pos(), false)
		r.pending = append(r.pending, pendingCall{module: module, imports: imports, call: tables.Call{
			ID: caller + "→" + name + "@" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.Column), Workspace: r.workspace, Caller: caller, Name: name,
			File: at.Filename, Line: at.Line, Entity: r.entity}})
		return true
	})
}

// resolve finds the callee of each call, once all symbols are known.
func (r *reader) resolve() {
	for _, p := range r.pending {
		c := p.call
		on, name, qualified := strings.Cut(c.Name, ".")
		switch {
		case !qualified:
			c.Callee = r.defined[p.module+"."+c.Name]
			c.Exact = c.Callee != ""
			if c.Callee == "" { // a test of the package calls it unqualified through a dot import, or a builtin
				continue
			}
		case p.imports[on] != "":
			c.Callee = r.defined[r.workspace+":"+p.imports[on]+"."+name]
			c.Exact = true
		default:
			if found := r.methods[name]; len(found) == 1 {
				c.Callee = found[0]
			}
			c.Name = strings.TrimPrefix(c.Name, "_.")
		}
		r.graph.Calls = append(r.graph.Calls, c)
	}
}

func receiver(t ast.Expr) (name string, pointer bool) {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t, pointer = x.X, true
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.Ident:
			return x.Name, pointer
		default:
			return "_", pointer
		}
	}
}

func (r *reader) print(n any) string {
	var b bytes.Buffer
	if format.Node(&b, r.fset, n) != nil {
		return ""
	}
	return b.String()
}

// firstLines keeps a declaration short: a type's or a value's whole text is in
// the file.
func firstLines(s string) string {
	const lines, size = 12, 600
	parts := strings.SplitAfterN(s, "\n", lines+1)
	if len(parts) > lines {
		s = strings.Join(parts[:lines], "") + "…"
	}
	if len(s) > size {
		s = strings.ToValidUTF8(s[:size], "") + "…"
	}
	return s
}

func synopsis(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	return new(doc.Package).Synopsis(g.Text())
}
