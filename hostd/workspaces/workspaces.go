// Package workspaces registers checkouts, reads their documents and code into
// the store, and says which launch profiles they offer.
//
// A workspace's rows are about one entity, which has the workspace's id: a
// connection with that id in its scope sees them, and so does "*".
package workspaces

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/importcode"
	"sophia/store/importdoc"
	"sophia/store/tables"
)

// Service implements ownerapi.Workspaces. It is safe for concurrent use.
type Service struct {
	db    *store.DB
	w     store.Writer
	texts blobs.Dir
}

// New makes the service. texts is where extracted text is kept.
func New(db *store.DB, w store.Writer, texts blobs.Dir) *Service { return &Service{db, w, texts} }

// Add registers a checkout, or takes the one that is registered at that path,
// and reads it. Errors: workspace_missing, workspace_too_wide.
func (s *Service) Add(ctx context.Context, ask ownerapi.AddWorkspace) (ownerapi.AddedWorkspace, error) {
	path, err := folder(ask.Path)
	if err != nil {
		return ownerapi.AddedWorkspace{}, err
	}
	out := ownerapi.AddedWorkspace{}
	_, err = s.w.Write(ctx, cause("workspace added"), func(tx *store.Tx) error {
		known, ok, err := tables.Workspaces.First(tx, store.Query[messages.Workspace]{Index: "path", Prefix: store.Tuple{path}})
		if err != nil {
			return err
		}
		out.Workspace, out.New = known, !ok
		if ok && (ask.Name == "" || ask.Name == known.Name) {
			return nil
		}
		if !ok {
			out.Workspace = messages.Workspace{ID: newID(), Path: path, Created: tx.Now()}
		}
		out.Name = cmp.Or(strings.TrimSpace(ask.Name), known.Name, filepath.Base(path))
		return tables.Workspaces.Put(tx, out.Workspace)
	})
	if err != nil {
		return out, err
	}
	docs, err := importdoc.Importer{DB: s.db, Write: s.w, Texts: s.texts}.
		Import(ctx, cause("documents of "+out.Name), importdoc.Folder{Workspace: out.ID, Path: path, Entity: out.ID})
	if err != nil {
		return out, err
	}
	code, err := importcode.Import(ctx, s.db, s.w, cause("code of "+out.Name), importcode.Folder{Workspace: out.ID, Path: path, Entity: out.ID})
	if err != nil {
		return out, err
	}
	out.Documents, out.Modules, out.Symbols = docs.Files, code.Modules, code.Symbols
	return out, nil
}

// folder is the real path of a checkout that may become a workspace.
func folder(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", problem.New("workspace_missing", "%q is not an absolute path", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", problem.Wrap(err, "workspace_missing", "%s can't be read", path)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", problem.New("workspace_missing", "%s is not a folder", path)
	}
	if home, err := os.UserHomeDir(); real == "/" || err == nil && real == filepath.Clean(home) {
		return "", problem.New("workspace_too_wide", "%s is not one project", real).WithHint("Give the folder of a checkout.")
	}
	return real, nil
}

// List returns all workspaces by name.
func (s *Service) List(context.Context) ([]messages.Workspace, error) {
	r := s.db.View(store.Owner())
	defer r.Close()
	all, err := tables.Workspaces.All(r, store.Query[messages.Workspace]{})
	slices.SortFunc(all, func(a, b messages.Workspace) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

// Get returns a workspace by its id, name or path. Error: workspace_not_found.
func (s *Service) Get(ctx context.Context, id string) (messages.Workspace, error) {
	all, err := s.List(ctx)
	if err != nil {
		return messages.Workspace{}, err
	}
	var names []string
	for _, w := range all {
		if w.ID == id || w.Name == id || w.Path == id {
			return w, nil
		}
		names = append(names, w.ID)
	}
	return messages.Workspace{}, problem.New("workspace_not_found", "there is no workspace %q", id).
		WithHint("Register it: sophia workspace add PATH").WithValid(names...)
}

func cause(reason string) store.Cause {
	return store.Cause{Actor: messages.Actor{Connection: "owner", Name: "owner"}, Scope: store.Owner(), Reason: reason}
}

func newID() string {
	var b [3]byte
	rand.Read(b[:])
	return "ws-" + hex.EncodeToString(b[:])
}
