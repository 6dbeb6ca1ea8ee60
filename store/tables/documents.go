package tables

import (
	"time"

	"sophia/store"
)

// Tiers of a document, each including the ones before.
const (
	TierScanned    = "scanned"    // hash and MIME type are known
	TierSearchable = "searchable" // its text is
	TierIndexed    = "indexed"    // facts were mined from it
)

// Document is one imported file, by doc-… (made of workspace and path).
type Document struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"` // ws-…, or ""
	Path      string    `json:"path"`      // relative to the workspace, with slashes
	Title     string    `json:"title"`
	MIME      string    `json:"mime"`
	Size      int64     `json:"size"`   // bytes of the file
	SHA256    string    `json:"sha256"` // of the file, hex
	Tier      string    `json:"tier"`
	Why       string    `json:"why,omitempty"`  // why it is not searchable
	Text      string    `json:"text,omitempty"` // SHA-256 of the extracted text, a blob
	TextSize  int       `json:"text_size,omitempty"`
	Entity    string    `json:"entity,omitempty"`
	Gone      bool      `json:"gone,omitempty"` // the file is not there any more
	Modified  time.Time `json:"modified"`       // the file's
	Imported  time.Time `json:"imported"`       // when this content was first seen
}

// Documents is hooked: importdoc keeps the chunks of a document in step with it.
var Documents = store.Define(store.Spec[Document]{
	ID: 10, Name: "documents", Noun: "document", Hooked: true,
	Key:     func(r *Document) string { return r.ID },
	Visible: func(r *Document) store.Visibility { return store.Of(r.Entity) },
	Indexes: []store.Index[Document]{
		store.One("path", func(r *Document) store.Tuple { return store.Tuple{r.Workspace, r.Path} }),
		store.Split(store.One("imported", func(r *Document) store.Tuple { return store.Tuple{r.Imported} })),
		store.One("tier", func(r *Document) store.Tuple { return store.Tuple{r.Tier, r.Workspace, r.Path} }),
	},
	Tallies: []store.Tally[Document]{{Name: "tier", Value: func(r *Document) string { return r.Tier }}},
})

// Chunk is a passage of a document's text, by document and number.
type Chunk struct {
	ID       string `json:"id"` // doc-…#0001
	Document string `json:"document"`
	Title    string `json:"title"`   // the document's
	Path     string `json:"path"`    // the document's
	Heading  string `json:"heading"` // the headings that it is under
	Start    int    `json:"start"`   // byte offsets in the document's text
	End      int    `json:"end"`
	Text     string `json:"text"`
	Entity   string `json:"entity,omitempty"`
}

// Chunks are made of documents.
var Chunks = store.Define(store.Spec[Chunk]{
	ID: 11, Name: "chunks", Noun: "passage", Derived: true,
	Key:     func(r *Chunk) string { return r.ID },
	Visible: func(r *Chunk) store.Visibility { return store.Of(r.Entity) },
	Text:    func(r *Chunk) string { return r.Path + "\n" + r.Title + "\n" + r.Heading + "\n" + r.Text },
	Indexes: []store.Index[Chunk]{
		store.One("document", func(r *Chunk) store.Tuple { return store.Tuple{r.Document, r.Start} }),
	},
})

// Rejection is a quote that was not found in its source.
type Rejection struct {
	ID       string    `json:"id"` // rej-…
	Document string    `json:"document"`
	Quote    string    `json:"quote"`
	Code     string    `json:"code"`
	Observer string    `json:"observer"` // connection
	Entity   string    `json:"entity,omitempty"`
	At       time.Time `json:"at"`
}

// Rejections are kept so that the owner sees what was claimed without ground.
var Rejections = store.Define(store.Spec[Rejection]{
	ID: 12, Name: "rejections", Noun: "rejection",
	Key:     func(r *Rejection) string { return r.ID },
	Visible: func(r *Rejection) store.Visibility { return store.Of(r.Entity) },
	Indexes: []store.Index[Rejection]{
		store.Split(store.One("at", func(r *Rejection) store.Tuple { return store.Tuple{r.At} })),
	},
})
