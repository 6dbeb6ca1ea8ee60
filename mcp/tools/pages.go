package tools

import (
	"context"
	"slices"
	"time"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
	"sophia/store/wiki"
)

// WikiPageOut is a page as it is read.
type WikiPageOut struct {
	Kind      string    `json:"kind"`
	Slug      string    `json:"slug"`
	Title     string    `json:"title"`
	Body      string    `json:"body" jsonschema:"Markdown"`
	Tags      []string  `json:"tags"`
	Links     []string  `json:"links" jsonschema:"targets of its [[wikilinks]]"`
	Backlinks []string  `json:"backlinks" jsonschema:"pages that link to it, kind/slug"`
	Entity    string    `json:"entity,omitempty"`
	Shared    bool      `json:"shared"`
	Signature string    `json:"signature" jsonschema:"unsigned: edited by hand; invalid: changed after it was signed" enum:"valid,unsigned,invalid"`
	Updated   time.Time `json:"updated"`
}

// WikiWritten is what write_wiki_page did.
type WikiWritten struct {
	Kind      string    `json:"kind"`
	Slug      string    `json:"slug"`
	Created   bool      `json:"created"`
	Mutations []string  `json:"mutations" jsonschema:"mut-…, empty when nothing changed"`
	At        time.Time `json:"at"`
}

// Pages are the tools of read_wiki and mutate_wiki.
func Pages(d Data) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "get_wiki_page", Group: registry.ReadWiki,
			Summary:     "Read a wiki page",
			Description: "By kind and slug. The file is the truth: an edit by hand is seen at once, and shown as unsigned.",
			Effects:     registry.Effects{Reads: []string{"wiki_pages"}}, Core: true}, d.getWikiPage),
		registry.Define(registry.Spec{Name: "write_wiki_page", Group: registry.MutateWiki,
			Summary:     "Write a wiki page, or replace one",
			Description: "Replaces title, body and tags; front matter that others added is kept. The page is signed and journaled, so it can be reverted.",
			Effects:     registry.Effects{Writes: []string{"wiki_pages"}}, Destructive: true, Idempotent: true, Core: true}, d.writeWikiPage, d.previewWikiPage),
	}
}

type wikiPageIn struct {
	Kind string `json:"kind,omitempty" enum:"note,arc-scratchpad,entity-profile,decision,glossary" default:"note"`
	Slug string `json:"slug" jsonschema:"e.g. release-plan" min:"1" max:"100"`
}

func (d Data) getWikiPage(ctx context.Context, c *registry.Call, in wikiPageIn) (WikiPageOut, error) {
	if err := d.pickUp(ctx, c, in.Kind, in.Slug); err != nil {
		return WikiPageOut{}, err
	}
	r := d.view(ctx, c)
	defer r.Close()
	p, err := tables.WikiPages.Get(r, tables.PageKey(in.Kind, in.Slug))
	if err != nil {
		return WikiPageOut{}, err
	}
	out := WikiPageOut{Kind: p.Kind, Slug: p.Slug, Title: p.Title, Body: p.Body, Tags: append([]string{}, p.Tags...), Links: append([]string{}, p.Links...),
		Backlinks: []string{}, Entity: p.Entity, Shared: p.Shared, Signature: p.Signature, Updated: p.Updated}
	for _, name := range []string{tables.PageKey(p.Kind, p.Slug), p.Slug} {
		from, err := tables.WikiPages.All(r, store.Query[tables.WikiPage]{Index: "link", Prefix: store.Tuple{name}})
		if err != nil {
			return out, err
		}
		for _, b := range from {
			out.Backlinks = append(out.Backlinks, tables.PageKey(b.Kind, b.Slug))
		}
	}
	return out, nil
}

// pickUp takes an edit by hand over before a page is read or written. What is
// wrong with the file is told to those who see the page.
func (d Data) pickUp(ctx context.Context, c *registry.Call, kind, slug string) error {
	stale, err := d.Wiki.Stale(kind, slug)
	if err != nil || !stale {
		return err
	}
	err = d.Wiki.PickUp(ctx, d.Write, kind, slug)
	if problem.CodeOf(err) != wiki.CodeAmbiguous || slices.Contains(c.Authority.Scope, "*") {
		return err
	}
	r := d.view(ctx, c)
	defer r.Close()
	if sees, failed := tables.WikiPages.Has(r, tables.PageKey(kind, slug)); failed == nil && !sees {
		return nil
	}
	return err
}

type writeWikiPageIn struct {
	Kind   string   `json:"kind,omitempty" enum:"note,arc-scratchpad,entity-profile,decision,glossary" default:"note"`
	Slug   string   `json:"slug" jsonschema:"e.g. release-plan" min:"1" max:"100"`
	Title  string   `json:"title,omitempty" max:"300"`
	Body   string   `json:"body" jsonschema:"Markdown, without front matter" max:"400000"`
	Tags   []string `json:"tags,omitempty" max:"50"`
	Entity string   `json:"entity,omitempty" jsonschema:"whom it is about: decides who sees it" max:"200"`
	Shared bool     `json:"shared,omitempty" jsonschema:"every connection of the owner sees it"`
	Reason string   `json:"reason,omitempty" jsonschema:"why, for the journal" max:"500"`
}

func (d Data) page(in writeWikiPageIn, created *bool) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		there, err := tables.WikiPages.Has(tx, tables.PageKey(in.Kind, in.Slug))
		if err != nil {
			return err
		}
		*created = !there
		_, err = d.Wiki.Put(tx, wiki.Draft{Kind: in.Kind, Slug: in.Slug, Title: in.Title, Body: in.Body, Tags: in.Tags, Entity: in.Entity, Shared: in.Shared})
		return err
	}
}

func (d Data) writeWikiPage(ctx context.Context, c *registry.Call, in writeWikiPageIn) (WikiWritten, error) {
	if err := d.pickUp(ctx, c, in.Kind, in.Slug); err != nil {
		return WikiWritten{}, err
	}
	out := WikiWritten{Kind: in.Kind, Slug: in.Slug}
	rec, err := d.Write.Write(ctx, because(c, in.Reason), d.page(in, &out.Created))
	out.Mutations, out.At = rec.Mutations, rec.At
	return out, err
}

func (d Data) previewWikiPage(ctx context.Context, c *registry.Call, in writeWikiPageIn) ([]messages.Change, error) {
	if err := d.pickUp(ctx, c, in.Kind, in.Slug); err != nil {
		return nil, err
	}
	var created bool
	return d.DB.Preview(ctx, because(c, in.Reason), d.page(in, &created))
}
