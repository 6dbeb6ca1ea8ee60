package tools

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"sophia/mcp/registry"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// DocumentHit is a passage that was found.
type DocumentHit struct {
	Document string   `json:"document" jsonschema:"pass it to read_document"`
	Title    string   `json:"title"`
	Path     string   `json:"path"`
	Heading  string   `json:"heading" jsonschema:"the headings that the passage is under"`
	Snippet  string   `json:"snippet"`
	Start    int      `json:"start" jsonschema:"byte offset of the passage in the document's text"`
	End      int      `json:"end"`
	Entity   string   `json:"entity,omitempty"`
	Rank     int      `json:"rank"`
	Score    float64  `json:"score" jsonschema:"fused by reciprocal ranks"`
	BM25     *float64 `json:"bm25,omitempty" jsonschema:"with explain: the score of this signal"`
}

// DocumentHits is a page of them.
type DocumentHits struct {
	Items  []DocumentHit `json:"items"`
	Total  int           `json:"total"`
	Cursor string        `json:"cursor,omitempty"`
	Fusion store.Fusion  `json:"fusion"`
}

// DocumentRow is a document as it is listed.
type DocumentRow struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Path      string    `json:"path"`
	Workspace string    `json:"workspace"`
	MIME      string    `json:"mime"`
	Size      int64     `json:"size" jsonschema:"bytes of the file"`
	SHA256    string    `json:"sha256"`
	Tier      string    `json:"tier" enum:"scanned,searchable,indexed"`
	Why       string    `json:"why,omitempty" jsonschema:"why it is not searchable"`
	Entity    string    `json:"entity,omitempty"`
	Gone      bool      `json:"gone" jsonschema:"the file is not there any more"`
	Modified  time.Time `json:"modified"`
	Imported  time.Time `json:"imported"`
}

// DocumentText is a piece of a document's text.
type DocumentText struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Path  string `json:"path"`
	MIME  string `json:"mime"`
	Text  string `json:"text"`
	Start int    `json:"start" jsonschema:"byte offset of text in the document's whole text"`
	End   int    `json:"end"`
	Size  int    `json:"size" jsonschema:"bytes of the whole text"`
	Next  *int   `json:"next,omitempty" jsonschema:"start of the next piece; absent at the end"`
}

// Documents are the tools of read_documents.
func Documents(d Data) []registry.Tool {
	reads := registry.Effects{Reads: []string{"documents", "chunks"}}
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "search_documents", Group: registry.ReadDocuments,
			Summary:     "Find passages in documents by words",
			Description: "Use it to find where something is said. All of the query is literal text. Then read on with read_document.",
			Effects:     reads, Compact: []string{"document", "title", "path", "snippet", "start"}, Core: true}, d.searchDocuments),
		registry.Define(registry.Spec{Name: "query_documents", Group: registry.ReadDocuments,
			Summary:     "List documents by workspace, path, type or tier",
			Description: "Use it to see which documents there are; for what they say use search_documents.",
			Effects:     reads, Compact: []string{"id", "title", "path", "tier", "modified"}, Core: true}, d.queryDocuments),
		registry.Define(registry.Spec{Name: "read_document", Group: registry.ReadDocuments,
			Summary:     "Read a document's text, or a piece of it",
			Description: "Offsets are bytes in the extracted text, the same that search_documents and check_evidence give. Quote verbatim from here.",
			Effects:     reads, Core: true}, d.readDocument),
	}
}

type searchDocumentsIn struct {
	Query     string `json:"query" jsonschema:"words to look for" min:"1" max:"1000"`
	Workspace string `json:"workspace,omitempty" jsonschema:"only of this workspace, ws-…"`
	Path      string `json:"path,omitempty" jsonschema:"only paths that begin with this"`
	Explain   bool   `json:"explain,omitempty" jsonschema:"with the score of each signal"`
	Paging
}

func (d Data) searchDocuments(ctx context.Context, c *registry.Call, in searchDocumentsIn) (DocumentHits, error) {
	paging := in.Paging
	in.Paging = Paging{}
	out := DocumentHits{Items: []DocumentHit{}}
	r := d.view(ctx, c)
	defer r.Close()
	var accept func(*store.Def, string) bool
	if in.Workspace != "" || in.Path != "" {
		wanted := map[string]bool{} // by document
		accept = func(_ *store.Def, key string) bool {
			id, _, _ := strings.Cut(key, "#")
			ok, known := wanted[id]
			if !known {
				doc, err := tables.Documents.Get(r, id)
				ok = err == nil && (in.Workspace == "" || doc.Workspace == in.Workspace) && strings.HasPrefix(doc.Path, in.Path)
				wanted[id] = ok
			}
			return ok
		}
	}
	found, err := r.Search(store.SearchQuery{Text: in.Query, Tables: defs(tables.Chunks.Def()), Accept: accept,
		Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in)})
	if err != nil {
		return out, err
	}
	out.Total, out.Cursor, out.Fusion = found.Total, found.Cursor, found.Fusion
	for _, h := range found.Hits {
		p, err := tables.Chunks.Get(r, h.Key)
		if err != nil {
			return out, err
		}
		hit := DocumentHit{Document: p.Document, Title: p.Title, Path: p.Path, Heading: p.Heading, Snippet: snippet(p.Text, in.Query),
			Start: p.Start, End: p.End, Entity: p.Entity, Rank: h.Rank, Score: h.Score}
		if in.Explain {
			hit.BM25 = &h.BM25
		}
		out.Items = append(out.Items, hit)
	}
	return out, nil
}

type queryDocumentsIn struct {
	Workspace string `json:"workspace,omitempty" jsonschema:"only of this workspace, ws-…"`
	Path      string `json:"path,omitempty" jsonschema:"only paths that begin with this"`
	MIME      string `json:"mime,omitempty" jsonschema:"only types that begin with this, e.g. text/markdown or image/"`
	Tier      string `json:"tier,omitempty" enum:"scanned,searchable,indexed"`
	Gone      bool   `json:"gone,omitempty" jsonschema:"also those whose file is not there any more"`
	Newest    bool   `json:"newest,omitempty" jsonschema:"newest import first, in place of by path"`
	Paging
}

func (d Data) queryDocuments(ctx context.Context, c *registry.Call, in queryDocumentsIn) (registry.Page[DocumentRow], error) {
	paging := in.Paging
	in.Paging = Paging{}
	r := d.view(ctx, c)
	defer r.Close()
	q := store.Query[tables.Document]{Index: "path", Limit: paging.Limit, Cursor: paging.Cursor, Bind: bind(c, in)}
	switch {
	case in.Newest:
		q.Index, q.Reverse = "imported", true
	case in.Workspace != "":
		q.Prefix = store.Tuple{in.Workspace}
	}
	q.Where = func(x *tables.Document) bool {
		return (in.Gone || !x.Gone) && (in.Workspace == "" || x.Workspace == in.Workspace) && strings.HasPrefix(x.Path, in.Path) &&
			strings.HasPrefix(x.MIME, in.MIME) && (in.Tier == "" || x.Tier == in.Tier)
	}
	page, err := tables.Documents.List(r, q)
	out := registry.Page[DocumentRow]{Items: []DocumentRow{}, Total: page.Total, Cursor: page.Cursor}
	for _, x := range page.Items {
		out.Items = append(out.Items, documentRow(x))
	}
	return out, err
}

func documentRow(x tables.Document) DocumentRow {
	return DocumentRow{ID: x.ID, Title: x.Title, Path: x.Path, Workspace: x.Workspace, MIME: x.MIME, Size: x.Size, SHA256: x.SHA256,
		Tier: x.Tier, Why: x.Why, Entity: x.Entity, Gone: x.Gone, Modified: x.Modified, Imported: x.Imported}
}

type readDocumentIn struct {
	Document string `json:"document" jsonschema:"doc-…" min:"1"`
	Start    int    `json:"start,omitempty" jsonschema:"byte offset to begin at" min:"0"`
	Length   int    `json:"length,omitempty" jsonschema:"bytes at most" default:"8000" min:"1" max:"100000"`
}

func (d Data) readDocument(ctx context.Context, c *registry.Call, in readDocumentIn) (DocumentText, error) {
	r := d.view(ctx, c)
	defer r.Close()
	doc, text, err := d.document(r, in.Document)
	if err != nil {
		return DocumentText{}, err
	}
	start := min(in.Start, len(text))
	for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
		start--
	}
	end := min(start+in.Length, len(text))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	out := DocumentText{ID: doc.ID, Title: doc.Title, Path: doc.Path, MIME: doc.MIME, Text: text[start:end], Start: start, End: end, Size: len(text)}
	if end < len(text) {
		out.Next = &end
	}
	return out, nil
}

// document returns a document that the reader sees, and its text. Code:
// document_not_searchable when it has none.
func (d Data) document(r *store.Reader, id string) (tables.Document, string, error) {
	doc, err := tables.Documents.Get(r, id)
	if err != nil {
		return doc, "", err
	}
	if doc.Text == "" {
		return doc, "", problem.New("document_not_searchable", "%s has no text that could be read: %s", doc.Path, doc.Why).
			WithHint("Its tier is %s. List readable ones with query_documents, tier searchable.", doc.Tier)
	}
	text, err := d.Texts.Get(doc.Text)
	return doc, string(text), err
}
