package importdoc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/tables"
)

// maxRead is the largest file whose text is looked at; a larger one is hashed.
const maxRead = 8 << 20

// group bounds what one commit imports: files, and bytes of text.
const (
	groupFiles = 32
	groupText  = 512 << 10
)

// Folder is what to import.
type Folder struct {
	Workspace string // ws-…
	Path      string // absolute
	Entity    string // that the documents are about; "" is none
}

// Summary counts what an import found, as it is after it.
type Summary struct {
	Files      int `json:"files"`
	Added      int `json:"added"`
	Changed    int `json:"changed"`
	Unchanged  int `json:"unchanged"`
	Gone       int `json:"gone"` // not there any more since the last time
	Scanned    int `json:"scanned"`
	Searchable int `json:"searchable"`
	Skipped    int `json:"skipped"` // could not be read
}

// Importer imports folders.
type Importer struct {
	DB    *store.DB
	Write store.Writer
	Texts blobs.Dir
}

// ID is a document's identifier: it is the same for the same place.
func ID(workspace, path string) string {
	sum := sha256.Sum256([]byte(workspace + "\x00" + path))
	return "doc-" + hex.EncodeToString(sum[:6])
}

// Import imports a folder, or does it again. It can be cut off anywhere and
// done again. Code: folder_not_read.
func (im Importer) Import(ctx context.Context, cause store.Cause, f Folder) (Summary, error) {
	var sum Summary
	root, err := os.OpenRoot(f.Path) // links that lead out of the folder are not followed
	if err != nil {
		return sum, problem.Wrap(err, "folder_not_read", "the folder %s can't be read", f.Path).WithHint("Is the path right, and may Sophia read it?")
	}
	defer root.Close()
	known, err := im.known(f)
	if err != nil {
		return sum, err
	}
	var group []tables.Document
	size := 0
	flush := func() error {
		docs := group
		group, size = nil, 0
		return im.save(ctx, cause, docs, &sum)
	}
	err = walk(ctx, root, func(name string, info fs.FileInfo) error {
		sum.Files++
		doc, err := im.read(root, name, info, f)
		if err != nil {
			sum.Skipped++
			delete(known, doc.ID) // it is there; we can't read it now
			return nil
		}
		if doc.Tier == tables.TierScanned {
			sum.Scanned++
		} else {
			sum.Searchable++
		}
		old, was := known[doc.ID]
		delete(known, doc.ID)
		switch {
		case was && unchanged(&old, &doc):
			sum.Unchanged++
			return nil
		case was && !old.Gone:
			sum.Changed++
		default:
			sum.Added++
		}
		group = append(group, doc)
		if size += doc.TextSize; len(group) == groupFiles || size >= groupText {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return sum, err
	}
	for _, old := range known {
		if old.Gone {
			continue
		}
		sum.Gone++
		old.Gone = true
		if _, err := im.Write.Write(ctx, cause, func(tx *store.Tx) error { return tables.Documents.Put(tx, old) }); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// save writes documents in one commit, or one by one when they do not fit. A
// single one that does not fit (a megabyte of different words) stays scanned.
func (im Importer) save(ctx context.Context, cause store.Cause, docs []tables.Document, sum *Summary) error {
	if len(docs) == 0 {
		return nil
	}
	_, err := im.Write.Write(ctx, cause, func(tx *store.Tx) error {
		for _, d := range docs {
			d.Imported = tx.Now()
			if err := tables.Documents.Put(tx, d); err != nil {
				return err
			}
		}
		return nil
	})
	if problem.CodeOf(err) != "write_too_big" {
		return err
	}
	if len(docs) > 1 {
		for i := range docs {
			if err := im.save(ctx, cause, docs[i:i+1], sum); err != nil {
				return err
			}
		}
		return nil
	}
	d := docs[0]
	if d.Text == "" {
		return err
	}
	d.Tier, d.Why, d.Text, d.TextSize = tables.TierScanned, "too_large", "", 0
	sum.Searchable--
	sum.Scanned++
	return im.save(ctx, cause, []tables.Document{d}, sum)
}

// known are the folder's documents so far.
func (im Importer) known(f Folder) (map[string]tables.Document, error) {
	r := im.DB.View(store.Owner())
	defer r.Close()
	all, err := tables.Documents.All(r, store.Query[tables.Document]{Index: "path", Prefix: store.Tuple{f.Workspace}})
	if err != nil {
		return nil, err
	}
	out := make(map[string]tables.Document, len(all))
	for _, d := range all {
		out[d.ID] = d
	}
	return out, nil
}

// unchanged leaves out when the file was touched and first seen: a checkout
// that rewrites the same bytes changes no document.
func unchanged(old, now *tables.Document) bool {
	a, b := *old, *now
	a.Imported, b.Imported, a.Modified, b.Modified = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if a.Tier == tables.TierIndexed && b.Tier == tables.TierSearchable {
		b.Tier = a.Tier // facts were mined from these very bytes
	}
	if a.Why == "too_large" && a.SHA256 == b.SHA256 {
		b.Tier, b.Why, b.Text, b.TextSize = a.Tier, a.Why, "", 0 // it would not fit this time either
	}
	return a == b
}

func (im Importer) read(root *os.Root, name string, info fs.FileInfo, f Folder) (tables.Document, error) {
	d := tables.Document{ID: ID(f.Workspace, name), Workspace: f.Workspace, Path: name, Title: path.Base(name), Tier: tables.TierScanned,
		Entity: f.Entity, Modified: info.ModTime().UTC()}
	file, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return d, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxRead+1))
	if err != nil {
		return d, err
	}
	h := sha256.New()
	h.Write(content)
	d.Size = int64(len(content))
	if len(content) > maxRead {
		more, err := io.Copy(h, file)
		if err != nil {
			return d, err
		}
		d.Size += more
		d.MIME, d.Why = mimeOf(name, content), "too_large"
		d.SHA256 = hex.EncodeToString(h.Sum(nil))
		return d, nil
	}
	d.SHA256 = hex.EncodeToString(h.Sum(nil))
	var text string
	text, d.Title, d.MIME, d.Why = Extract(name, content)
	if d.Why != "" {
		return d, nil
	}
	if d.Text, err = im.Texts.Put([]byte(text)); err != nil {
		return d, err
	}
	d.Tier, d.TextSize = tables.TierSearchable, len(text)
	return d, nil
}

// walk calls f for each regular file in path order.
func walk(ctx context.Context, root *os.Root, f func(name string, info fs.FileInfo) error) error {
	var ig ignore
	if b, err := root.ReadFile(".gitignore"); err == nil {
		ig = parseIgnore(string(b))
	}
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			if name == "." {
				return err
			}
			if errors.Is(err, fs.ErrPermission) && e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if name == "." {
			return nil
		}
		if ig.skips(name, e.IsDir()) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil // gone since it was listed
		}
		return f(name, info)
	})
}
