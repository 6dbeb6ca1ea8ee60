package surface

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sophia/store"
	"sophia/store/importdoc"
	"sophia/store/tables"
)

// Grow makes the store that of factor workspaces: each row of the imported
// documents and code once more per further workspace, under names of its own.
// Passages come with their documents. The copies are about another entity when
// one is named.
func (s *Surface) Grow(ctx context.Context, factor int, entity string) error {
	r := s.DB.View(store.Owner())
	defer r.Close()
	documents, err := tables.Documents.All(r, store.Query[tables.Document]{})
	if err != nil {
		return err
	}
	modules, err := tables.Modules.All(r, store.Query[tables.Module]{})
	if err != nil {
		return err
	}
	symbols, err := tables.Symbols.All(r, store.Query[tables.Symbol]{})
	if err != nil {
		return err
	}
	for n := 1; n < factor; n++ {
		workspace, prefix := fmt.Sprintf("ws-a%05x", n), fmt.Sprintf("copy-%05d/", n)
		for i := range documents {
			d := &documents[i]
			d.Path = prefix + original(d.Path)
			d.Entity = cmp.Or(entity, d.Entity)
			d.Workspace, d.ID = workspace, importdoc.ID(workspace, d.Path)
		}
		for i := range modules {
			modules[i].Entity = cmp.Or(entity, modules[i].Entity)
			modules[i].ID, modules[i].Workspace = workspace+":"+modules[i].Name, workspace
		}
		for i := range symbols {
			symbols[i].Entity = cmp.Or(entity, symbols[i].Entity)
			symbols[i].ID, symbols[i].Workspace = fmt.Sprintf("%s:%d.%s", workspace, i, symbols[i].Name), workspace
		}
		if err := put(ctx, s.DB, tables.Documents, documents, 32); err != nil {
			return err
		}
		if err := put(ctx, s.DB, tables.Modules, modules, 500); err != nil {
			return err
		}
		if err := put(ctx, s.DB, tables.Symbols, symbols, 500); err != nil {
			return err
		}
	}
	return nil
}

// original is a path without the prefix of an earlier copy.
func original(path string) string {
	var n int
	if _, err := fmt.Sscanf(path, "copy-%05d/", &n); err == nil {
		return path[len("copy-00000/"):]
	}
	return path
}

func put[R any](ctx context.Context, w store.Writer, t *store.Table[R], rows []R, group int) error {
	for some := range slices.Chunk(rows, group) {
		if _, err := w.Write(ctx, cause, func(tx *store.Tx) error {
			for _, row := range some {
				if err := t.Put(tx, row); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
