package tools

import (
	"context"
	"slices"

	"sophia/mcp/registry"
	"sophia/store"
	"sophia/store/tables"
)

// SearchHit is anything that was found.
type SearchHit struct {
	Type    string   `json:"type" enum:"document,fact,observation,wiki_page,symbol,module,post,goal,open_question,interrupt"`
	ID      string   `json:"id" jsonschema:"of a document: doc-…; of a wiki page: kind/slug"`
	Title   string   `json:"title"`
	Snippet string   `json:"snippet"`
	Entity  string   `json:"entity,omitempty"`
	Path    string   `json:"path,omitempty"`
	Start   int      `json:"start,omitempty" jsonschema:"of a document: byte offset; of a symbol: line"`
	Rank    int      `json:"rank"`
	Score   float64  `json:"score" jsonschema:"fused by reciprocal ranks"`
	BM25    *float64 `json:"bm25,omitempty" jsonschema:"with explain: the score of this signal"`
}

// SearchHits is a page of them.
type SearchHits struct {
	Items  []SearchHit  `json:"items"`
	Total  int          `json:"total"`
	Cursor string       `json:"cursor,omitempty"`
	Fusion store.Fusion `json:"fusion"`
}

// searchable is a table that search looks into, and how a row of it is shown.
type searchable struct {
	name string
	def  *store.Def
	show func(s store.Source, key, query string) (SearchHit, error)
}

func showing[R any](name string, t *store.Table[R], f func(r *R, query string) SearchHit) searchable {
	return searchable{name, t.Def(), func(s store.Source, key, query string) (SearchHit, error) {
		r, err := t.Get(s, key)
		if err != nil {
			return SearchHit{}, err
		}
		h := f(&r, query)
		h.Type = name
		return h, nil
	}}
}

func showNote(n *tables.Note, query string) SearchHit {
	return SearchHit{ID: n.ID, Title: shorten(n.Text, 80), Snippet: snippet(n.Text, query), Entity: n.Entity}
}

func searchables() []searchable {
	return []searchable{
		showing("document", tables.Chunks, func(r *tables.Chunk, q string) SearchHit {
			return SearchHit{ID: r.Document, Title: r.Title, Snippet: snippet(r.Text, q), Entity: r.Entity, Path: r.Path, Start: r.Start}
		}),
		showing("fact", tables.Facts, func(r *tables.Fact, q string) SearchHit {
			return SearchHit{ID: r.ID, Title: r.Entity + " " + r.Predicate, Snippet: shorten(r.Object, snippetSize), Entity: r.Entity}
		}),
		showing("observation", tables.Observations, func(r *tables.Observation, q string) SearchHit {
			return SearchHit{ID: r.ID, Title: shorten(r.Text, 80), Snippet: snippet(r.Text, q), Entity: r.Entity}
		}),
		showing("wiki_page", tables.WikiPages, func(r *tables.WikiPage, q string) SearchHit {
			return SearchHit{ID: tables.PageKey(r.Kind, r.Slug), Title: r.Title, Snippet: snippet(r.Body, q), Entity: r.Entity}
		}),
		showing("symbol", tables.Symbols, func(r *tables.Symbol, q string) SearchHit {
			return SearchHit{ID: r.ID, Title: r.Name, Snippet: shorten(r.Signature, snippetSize), Entity: r.Entity, Path: r.File, Start: r.Start}
		}),
		showing("module", tables.Modules, func(r *tables.Module, q string) SearchHit {
			return SearchHit{ID: r.ID, Title: r.Name, Snippet: r.Doc, Entity: r.Entity}
		}),
		showing("post", tables.Posts, func(r *tables.Post, q string) SearchHit {
			return SearchHit{ID: r.ID, Title: r.Channel + ", " + r.Sender.Name, Snippet: snippet(r.Body, q)}
		}),
		showing("goal", tables.Goals, showNote),
		showing("open_question", tables.Questions, showNote),
		showing("interrupt", tables.Interrupts, showNote),
	}
}

// Search are the tools that look everywhere.
func Search(d Data) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "search", Group: registry.ReadMeta,
			Summary:     "Find anything by words: documents, facts, wiki, code, posts",
			Description: "One ranking over all that you may see. All of the query is literal text. Narrow it with types.",
			Effects:     registry.Effects{Reads: []string{"documents", "facts", "observations", "wiki_pages", "code_symbols", "code_modules", "posts", "goals", "open_questions", "interrupts"}},
			Compact:     []string{"type", "id", "title", "snippet", "score"}, Core: true}, d.search),
	}
}

type searchIn struct {
	Query   string   `json:"query" jsonschema:"words to look for" min:"1" max:"1000"`
	Types   []string `json:"types,omitempty" jsonschema:"only these" enum:"document,fact,observation,wiki_page,symbol,module,post,goal,open_question,interrupt"`
	Entity  string   `json:"entity,omitempty" jsonschema:"only what is about this entity"`
	Explain bool     `json:"explain,omitempty" jsonschema:"with the score of each signal"`
	Paging
}

func (d Data) search(ctx context.Context, c *registry.Call, in searchIn) (SearchHits, error) {
	paging := in.Paging
	in.Paging = Paging{}
	out := SearchHits{Items: []SearchHit{}}
	r := d.view(ctx, c)
	defer r.Close()
	shows := map[string]searchable{}
	var where []*store.Def
	for _, s := range searchables() {
		if len(in.Types) == 0 || slices.Contains(in.Types, s.name) {
			where = append(where, s.def)
			shows[s.def.Name()] = s
		}
	}
	q := store.SearchQuery{Text: in.Query, Tables: where, Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in)}
	if in.Entity != "" {
		q.Accept = func(def *store.Def, key string) bool {
			h, err := shows[def.Name()].show(r, key, "")
			return err == nil && h.Entity == in.Entity
		}
	}
	found, err := r.Search(q)
	out.Total, out.Cursor, out.Fusion = found.Total, found.Cursor, found.Fusion
	for _, h := range found.Hits {
		hit, err := shows[h.Table].show(r, h.Key, in.Query)
		if err != nil {
			return out, err
		}
		hit.Rank, hit.Score = h.Rank, h.Score
		if in.Explain {
			hit.BM25 = &h.BM25
		}
		out.Items = append(out.Items, hit)
	}
	return out, err
}
