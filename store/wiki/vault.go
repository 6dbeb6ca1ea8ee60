package wiki

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/tables"
)

// Vault is the folder of pages and the key that signs them.
type Vault struct {
	root *os.Root // <vault>/wiki
	key  ed25519.PrivateKey
	db   *store.DB
}

// Open opens a vault and attaches it to the store: from then on a write of a
// page's row writes its file. keyFile (0600) is made when it is missing. Open
// before the store is used.
func Open(db *store.DB, vault, keyFile string) (*Vault, error) {
	key, err := loadKey(keyFile)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(vault, "wiki")
	for _, k := range Kinds() {
		if err := os.MkdirAll(filepath.Join(dir, k), 0o700); err != nil {
			return nil, problem.Wrap(err, "wiki_not_opened", "the folder %s can't be made", dir)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, problem.Wrap(err, "wiki_not_opened", "the folder %s can't be opened", dir)
	}
	v := &Vault{root: root, key: key, db: db}
	store.Attach(db, tables.WikiPages, v.changed)
	return v, nil
}

// Close gives the folder back.
func (v *Vault) Close() error { return v.root.Close() }

func loadKey(file string) (ed25519.PrivateKey, error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		seed = make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, problem.Wrap(err, "wiki_not_opened", "the signing key %s can't be made", file)
		}
		_, err = f.Write(seed)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return nil, problem.Wrap(err, "wiki_not_opened", "the signing key %s can't be written", file)
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, problem.Wrap(err, "wiki_not_opened", "%s is not a signing key", file).
			WithHint("Restore it from a backup, or move it away: pages signed so far then show as invalid.")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func fileOf(kind, slug string) string { return path.Join(kind, slug+".md") }

// Put writes a page within a write, and returns it as it is then.
func (v *Vault) Put(tx *store.Tx, d Draft) (tables.WikiPage, error) {
	if err := CheckName(d.Kind, d.Slug); err != nil {
		return tables.WikiPage{}, err
	}
	if strings.TrimSpace(d.Title) == "" {
		d.Title = d.Slug
	}
	var old *tables.WikiPage
	if was, err := tables.WikiPages.Get(tx, tables.PageKey(d.Kind, d.Slug)); err == nil {
		old = &was
	} else if problem.CodeOf(err) != "not_found" {
		return tables.WikiPage{}, err
	}
	p, err := v.compose(d, old)
	if err != nil {
		return p, err
	}
	if old != nil && old.File == p.File {
		return *old, nil
	}
	p.Updated = tx.Now()
	return p, tables.WikiPages.Put(tx, p)
}

// changed brings the file in step with its row. The file must be as the row
// was, or be as it should be already.
func (v *Vault) changed(tx *store.Tx, before, after *tables.WikiPage) error {
	p := after
	if p == nil {
		p = before
	}
	return tx.Effect(func() (func(), error) {
		name := fileOf(p.Kind, p.Slug)
		now, err := v.read(name)
		if err != nil {
			return nil, err
		}
		want := contentOf(after)
		if same(now, want) {
			return nil, nil
		}
		if !same(now, contentOf(before)) {
			return nil, problem.New("wiki_page_edited", "%s was edited by hand since it was last read", name).
				WithHint("Read the page again; the edit is then picked up and can be built upon.")
		}
		if err := v.replace(name, want); err != nil {
			return nil, problem.Wrap(err, "wiki_page_not_written", "%s can't be written", name)
		}
		return func() { _ = v.replace(name, now) }, nil
	})
}

func contentOf(p *tables.WikiPage) *string {
	if p == nil {
		return nil
	}
	return &p.File
}

func same(a, b *string) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return *a == *b
}

// read returns a file's content; nil when there is none.
func (v *Vault) read(name string) (*string, error) {
	st, err := v.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxPage {
		return nil, problem.New("wiki_page_not_read", "%s is not a page: it must be a regular file of at most %d bytes", name, maxPage)
	}
	b, err := v.root.ReadFile(name)
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	return &s, err
}

// replace writes a file atomically, or removes it (nil), and syncs both.
func (v *Vault) replace(name string, content *string) error {
	if content == nil {
		if err := v.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return v.syncDir(path.Dir(name))
	}
	temp := path.Join(path.Dir(name), ".new-"+path.Base(name))
	f, err := v.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(*content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = v.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, v.root.Remove(temp))
	}
	return v.syncDir(path.Dir(name))
}

func (v *Vault) syncDir(name string) error {
	d, err := v.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Stale says that a page's file is not as its row: it was edited, made or
// removed by hand. It tells nothing about what the page is.
func (v *Vault) Stale(kind, slug string) (bool, error) {
	if err := CheckName(kind, slug); err != nil {
		return false, err
	}
	r := v.db.View(store.Owner())
	defer r.Close()
	now, err := v.read(fileOf(kind, slug))
	if err != nil {
		return false, err
	}
	row, err := v.row(r, kind, slug)
	if err != nil {
		return false, err
	}
	return !same(now, contentOf(row)), nil
}

func (v *Vault) row(s store.Source, kind, slug string) (*tables.WikiPage, error) {
	p, err := tables.WikiPages.Get(s, tables.PageKey(kind, slug))
	if problem.CodeOf(err) == "not_found" {
		return nil, nil
	}
	return &p, err
}

// PickUp takes a page's file over into the store, when someone edited it. A file
// whose front matter says a thing twice is left alone, because it is not clear
// who may see it: wiki_front_matter_ambiguous.
func (v *Vault) PickUp(ctx context.Context, w store.Writer, kind, slug string) error {
	if err := CheckName(kind, slug); err != nil {
		return err
	}
	_, err := w.Write(ctx, store.System("editor", "the file was edited by hand"), func(tx *store.Tx) error {
		now, err := v.read(fileOf(kind, slug))
		if err != nil {
			return err
		}
		old, err := v.row(tx, kind, slug)
		if err != nil || same(now, contentOf(old)) {
			return err
		}
		if now == nil {
			return tables.WikiPages.Delete(tx, tables.PageKey(kind, slug))
		}
		f, _, _ := cut(*now)
		if key, first, again := f.twice(); key != "" {
			return problem.New(CodeAmbiguous, "%s gives %q twice, in lines %d and %d", fileOf(kind, slug), key, first, again).
				WithHint("Keep one of the two lines. Until then the page can't be read or written here.")
		}
		return tables.WikiPages.Put(tx, v.parse(kind, slug, *now, tx.Now()))
	})
	return err
}

// CodeAmbiguous is of a file whose front matter says a thing twice.
const CodeAmbiguous = "wiki_front_matter_ambiguous"

// Rescan picks up every page that was edited, made or removed by hand, and
// returns how many.
func (v *Vault) Rescan(ctx context.Context, w store.Writer) (int, error) {
	names := map[string]bool{}
	for _, kind := range Kinds() {
		entries, err := fs.ReadDir(v.root.FS(), kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if slug, ok := strings.CutSuffix(e.Name(), ".md"); ok && CheckName(kind, slug) == nil && e.Type().IsRegular() {
				names[tables.PageKey(kind, slug)] = true
			}
		}
	}
	r := v.db.View(store.Owner())
	rows, err := tables.WikiPages.All(r, store.Query[tables.WikiPage]{})
	r.Close()
	if err != nil {
		return 0, err
	}
	for _, p := range rows {
		names[tables.PageKey(p.Kind, p.Slug)] = true
	}
	n := 0
	for name := range names {
		kind, slug, _ := strings.Cut(name, "/")
		stale, err := v.Stale(kind, slug)
		if problem.CodeOf(err) == "wiki_page_not_read" {
			continue
		}
		if err != nil {
			return n, err
		}
		if stale {
			err := v.PickUp(ctx, w, kind, slug)
			if problem.CodeOf(err) == CodeAmbiguous {
				continue // who reads it is told
			}
			if err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
