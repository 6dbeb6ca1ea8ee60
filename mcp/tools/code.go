package tools

import (
	"context"
	"strings"

	"sophia/mcp/registry"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// CodeRow is a module, a symbol or a call.
type CodeRow struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind" jsonschema:"of a module: library, program, test; of a symbol: func, method, type, const, var; or call"`
	Name      string   `json:"name"`
	Module    string   `json:"module,omitempty" jsonschema:"id of its module"`
	File      string   `json:"file,omitempty"`
	Start     int      `json:"start,omitempty" jsonschema:"first line"`
	End       int      `json:"end,omitempty" jsonschema:"last line"`
	Signature string   `json:"signature,omitempty"`
	Doc       string   `json:"doc,omitempty"`
	Language  string   `json:"language,omitempty"`
	Lines     int      `json:"lines,omitempty"`
	Files     []string `json:"files,omitempty"`
	Imports   []string `json:"imports,omitempty"`
	Exports   []string `json:"exports,omitempty"`
	Caller    string   `json:"caller,omitempty" jsonschema:"id of the calling symbol"`
	Callee    string   `json:"callee,omitempty" jsonschema:"id of the called symbol; absent when it is outside the workspace"`
	Exact     *bool    `json:"exact,omitempty" jsonschema:"of a call: resolved by package, not by the method's name alone"`
}

// CodeOverview counts a code graph. Each breakdown adds up to modules.
type CodeOverview struct {
	Modules    int            `json:"modules"`
	Symbols    int            `json:"symbols"`
	Edges      int            `json:"edges"`
	ByLanguage map[string]int `json:"by_language"`
	ByKind     map[string]int `json:"by_kind"`
}

// CodeRows is a page of the code graph.
type CodeRows struct {
	Items    []CodeRow     `json:"items"`
	Total    int           `json:"total"`
	Cursor   string        `json:"cursor,omitempty"`
	Overview *CodeOverview `json:"overview,omitempty" jsonschema:"with kind overview"`
}

// Code are the tools of read_code.
func Code(d Data) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "query_codebase", Group: registry.ReadCode,
			Summary:     "Ask the code graph: overview, modules, symbols, callers, callees",
			Description: "overview counts and lists modules; symbols finds declarations by name, module or file; callers and callees need symbol (an id, or a name when only one symbol has it).",
			Effects:     registry.Effects{Reads: []string{"code_modules", "code_symbols", "code_calls"}},
			Compact:     []string{"id", "kind", "name", "file", "start"}, Core: true}, d.queryCodebase),
	}
}

type queryCodebaseIn struct {
	Kind      string `json:"kind" enum:"overview,modules,symbols,callers,callees"`
	EntityID  string `json:"entity_id,omitempty" jsonschema:"only code that belongs to this entity"`
	Workspace string `json:"workspace,omitempty" jsonschema:"only of this workspace, ws-…"`
	Module    string `json:"module,omitempty" jsonschema:"a module's id or name"`
	File      string `json:"file,omitempty" jsonschema:"only of this file"`
	Name      string `json:"name,omitempty" jsonschema:"a symbol's name, with or without its receiver; of modules: a part of the name"`
	Query     string `json:"query,omitempty" jsonschema:"of symbols: words to look for in names, signatures and comments" max:"500"`
	Exported  bool   `json:"exported,omitempty" jsonschema:"only exported symbols"`
	Symbol    string `json:"symbol,omitempty" jsonschema:"of callers and callees: which"`
	Paging
}

func (in *queryCodebaseIn) workspace(id string) bool {
	return in.Workspace == "" || in.Workspace == id
}

func (in *queryCodebaseIn) entity(id string) bool { return in.EntityID == "" || in.EntityID == id }

func (d Data) queryCodebase(ctx context.Context, c *registry.Call, in queryCodebaseIn) (CodeRows, error) {
	paging := in.Paging
	in.Paging = Paging{}
	r := d.view(ctx, c)
	defer r.Close()
	at := bind(c, in)
	switch in.Kind {
	case "symbols":
		if in.Query != "" {
			return in.searchSymbols(r, paging, at)
		}
		return in.symbols(r, paging, at)
	case "callers", "callees":
		return in.calls(r, paging, at)
	}
	out, err := in.modules(r, paging, at)
	if err == nil && in.Kind == "overview" {
		out.Overview, err = in.overview(r)
	}
	return out, err
}

func (in *queryCodebaseIn) module(m *tables.Module) bool {
	return in.workspace(m.Workspace) && in.entity(m.Entity) && (in.Module == "" || m.ID == in.Module || m.Name == in.Module) && strings.Contains(m.Name, in.Name)
}

func (in *queryCodebaseIn) modules(r *store.Reader, p Paging, at string) (CodeRows, error) {
	out := CodeRows{Items: []CodeRow{}}
	page, err := tables.Modules.List(r, store.Query[tables.Module]{Where: in.module, Limit: p.Limit, Cursor: p.Cursor, Bind: at})
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, m := range page.Items {
		out.Items = append(out.Items, CodeRow{ID: m.ID, Kind: m.Kind, Name: m.Name, Language: m.Language, Lines: m.Lines, Files: m.Files,
			Imports: m.Imports, Exports: m.Exports, Doc: m.Doc})
	}
	return out, err
}

func (in *queryCodebaseIn) overview(r *store.Reader) (*CodeOverview, error) {
	o := &CodeOverview{ByLanguage: map[string]int{}, ByKind: map[string]int{}}
	modules, err := tables.Modules.All(r, store.Query[tables.Module]{Where: in.module})
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		o.Modules++
		o.ByLanguage[m.Language]++
		o.ByKind[m.Kind]++
	}
	whole := in.Module == "" && in.Name == "" && in.EntityID == ""
	symbols := store.Query[tables.Symbol]{Index: "file", Limit: 1}
	calls := store.Query[tables.Call]{Index: "workspace", Limit: 1}
	if in.Workspace != "" {
		symbols.Prefix, calls.Prefix = store.Tuple{in.Workspace}, store.Tuple{in.Workspace}
	}
	if !whole {
		ids := map[string]bool{}
		for _, m := range modules {
			ids[m.ID] = true
		}
		of := map[string]bool{}
		all, err := tables.Symbols.All(r, store.Query[tables.Symbol]{Where: func(s *tables.Symbol) bool { return ids[s.Module] }})
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			of[s.ID] = true
		}
		o.Symbols = len(all)
		calls.Where = func(c *tables.Call) bool { return of[c.Caller] && c.Callee != "" }
	} else {
		page, err := tables.Symbols.List(r, symbols)
		if err != nil {
			return nil, err
		}
		o.Symbols = page.Total
		calls.Where = func(c *tables.Call) bool { return c.Callee != "" }
	}
	page, err := tables.Calls.List(r, calls)
	o.Edges = page.Total
	return o, err
}

func (in *queryCodebaseIn) symbol(s *tables.Symbol) bool {
	_, name, _ := strings.Cut(s.Module, ":")
	return in.workspace(s.Workspace) && in.entity(s.Entity) && (in.Module == "" || s.Module == in.Module || name == in.Module) &&
		(in.File == "" || s.File == in.File) && (!in.Exported || s.Exported) && (in.Name == "" || s.Name == in.Name || tables.Bare(s.Name) == in.Name)
}

func symbolRow(s tables.Symbol) CodeRow {
	return CodeRow{ID: s.ID, Kind: s.Kind, Name: s.Name, Module: s.Module, File: s.File, Start: s.Start, End: s.End, Signature: s.Signature, Doc: s.Doc}
}

func (in *queryCodebaseIn) symbols(r *store.Reader, p Paging, at string) (CodeRows, error) {
	q := store.Query[tables.Symbol]{Where: in.symbol, Limit: p.Limit, Cursor: p.Cursor, Bind: at}
	switch {
	case in.Name != "":
		q.Index, q.Prefix = "name", store.Tuple{tables.Bare(in.Name)}
	case in.File != "" && in.Workspace != "":
		q.Index, q.Prefix = "file", store.Tuple{in.Workspace, in.File}
	case strings.Contains(in.Module, ":"):
		q.Index, q.Prefix = "module", store.Tuple{in.Module}
	}
	out := CodeRows{Items: []CodeRow{}}
	page, err := tables.Symbols.List(r, q)
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, s := range page.Items {
		out.Items = append(out.Items, symbolRow(s))
	}
	return out, err
}

func (in *queryCodebaseIn) searchSymbols(r *store.Reader, p Paging, at string) (CodeRows, error) {
	out := CodeRows{Items: []CodeRow{}}
	found, err := r.Search(store.SearchQuery{Text: in.Query, Tables: defs(tables.Symbols.Def()), Limit: p.Limit, Cursor: p.Cursor, Bind: at,
		Accept: func(_ *store.Def, key string) bool {
			s, err := tables.Symbols.Get(r, key)
			return err == nil && in.symbol(&s)
		}})
	out.Total, out.Cursor = found.Total, found.Cursor
	for _, h := range found.Hits {
		s, err := tables.Symbols.Get(r, h.Key)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, symbolRow(s))
	}
	return out, err
}

func (in *queryCodebaseIn) calls(r *store.Reader, p Paging, at string) (CodeRows, error) {
	out := CodeRows{Items: []CodeRow{}}
	id, err := in.resolve(r)
	if err != nil {
		return out, err
	}
	index := "callee"
	if in.Kind == "callees" {
		index = "caller"
	}
	page, err := tables.Calls.List(r, store.Query[tables.Call]{Index: index, Prefix: store.Tuple{id}, Limit: p.Limit, Cursor: p.Cursor, Bind: at})
	out.Total, out.Cursor = page.Total, page.Cursor
	for _, c := range page.Items {
		out.Items = append(out.Items, CodeRow{ID: c.ID, Kind: "call", Name: c.Name, File: c.File, Start: c.Line, End: c.Line, Caller: c.Caller, Callee: c.Callee, Exact: &c.Exact})
	}
	return out, err
}

// resolve finds the symbol that is meant. Codes: symbol_missing, not_found,
// symbol_ambiguous with the candidates.
func (in *queryCodebaseIn) resolve(r *store.Reader) (string, error) {
	want := in.Symbol
	if want == "" {
		want = in.Name
	}
	if want == "" {
		return "", problem.New("symbol_missing", "%s needs symbol", in.Kind).WithHint("Give a symbol's id; kind symbols finds it.")
	}
	if s, err := tables.Symbols.Get(r, want); err == nil {
		return s.ID, nil
	}
	named := queryCodebaseIn{EntityID: in.EntityID, Workspace: in.Workspace, Module: in.Module, File: in.File, Name: want}
	found, err := named.symbols(r, Paging{Limit: 20}, "")
	switch {
	case err != nil:
		return "", err
	case found.Total == 0:
		return "", tables.Symbols.NotFound(want)
	case found.Total > 1:
		ids := make([]string, len(found.Items))
		for i, s := range found.Items {
			ids[i] = s.ID
		}
		return "", problem.New("symbol_ambiguous", "%d symbols have the name %s", found.Total, want).WithHint("Give the id of the one you mean.").WithValid(ids...)
	}
	return found.Items[0].ID, nil
}
