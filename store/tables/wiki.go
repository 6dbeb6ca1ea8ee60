package tables

import (
	"time"

	"sophia/store"
)

// WikiPage is a page as its file is: the file is the truth, this row is the
// index, and the journal of it the page's history. By kind/slug.
type WikiPage struct {
	Kind      string    `json:"kind"`
	Slug      string    `json:"slug"`
	Title     string    `json:"title"`
	Tags      []string  `json:"tags,omitempty"`
	Links     []string  `json:"links,omitempty"` // targets of [[wikilinks]], as written
	Entity    string    `json:"entity,omitempty"`
	Shared    bool      `json:"shared,omitempty"`
	Signature string    `json:"signature"` // valid, unsigned (edited by hand), invalid
	Body      string    `json:"body"`      // Markdown, without the front matter
	File      string    `json:"file"`      // the whole file, byte for byte
	Updated   time.Time `json:"updated"`
}

// PageKey is the key of a page.
func PageKey(kind, slug string) string { return kind + "/" + slug }

// WikiPages is hooked: package wiki writes the file.
var WikiPages = store.Define(store.Spec[WikiPage]{
	ID: 40, Name: "wiki_pages", Noun: "wiki page", Hooked: true,
	Key: func(r *WikiPage) string { return PageKey(r.Kind, r.Slug) },
	Visible: func(r *WikiPage) store.Visibility {
		v := store.Of(r.Entity)
		v.Shared = r.Shared
		return v
	},
	Text: func(r *WikiPage) string { return r.Title + "\n" + r.Body },
	Indexes: []store.Index[WikiPage]{
		store.Split(store.One("updated", func(r *WikiPage) store.Tuple { return store.Tuple{r.Updated} })),
		{Name: "link", Values: func(r *WikiPage) []store.Tuple {
			var out []store.Tuple
			for _, l := range r.Links {
				out = append(out, store.Tuple{l})
			}
			return out
		}},
	},
})
