package importdoc

import (
	"fmt"

	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/tables"
)

// Attach makes the documents table keep its passages. Attach before the store
// is used.
func Attach(db *store.DB, texts blobs.Dir) {
	store.Attach(db, tables.Documents, func(tx *store.Tx, before, after *tables.Document) error {
		if before != nil && after != nil && same(before, after) {
			return nil
		}
		if before != nil && searchable(before) {
			old, err := tables.Chunks.All(tx, store.Query[tables.Chunk]{Index: "document", Prefix: store.Tuple{before.ID}})
			if err != nil {
				return err
			}
			for _, c := range old {
				if err := tables.Chunks.Delete(tx, c.ID); err != nil {
					return err
				}
			}
		}
		if after == nil || !searchable(after) {
			return nil
		}
		text, err := texts.Get(after.Text)
		if err != nil {
			return err
		}
		for i, p := range split(string(text), after.MIME == "text/markdown") {
			err := tables.Chunks.Put(tx, tables.Chunk{ID: fmt.Sprintf("%s#%04d", after.ID, i+1), Document: after.ID, Title: after.Title, Path: after.Path,
				Heading: p.heading, Start: p.start, End: p.end, Text: string(text[p.start:p.end]), Entity: after.Entity})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func searchable(d *tables.Document) bool { return d.Text != "" && !d.Gone }

// same says that both have the same passages.
func same(a, b *tables.Document) bool {
	return a.Text == b.Text && a.Entity == b.Entity && a.Title == b.Title && a.Path == b.Path && a.MIME == b.MIME && a.Gone == b.Gone
}
