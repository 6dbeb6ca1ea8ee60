package adopt

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/paths"
	"sophia/messages"
	"sophia/messages/problem"
)

// Adopter keeps adopted harnesses below Root, which is private.
type Adopter struct {
	Contracts contracts.Set
	Root      string           // paths.Dirs.Harnesses()
	Scratch   string           // for witnesses, outside temp folders
	Now       func() time.Time // time.Now
}

const (
	recordName = "adopted.json"
	treeName   = "tree"
	staging    = ".staging-"
)

// Adopt copies the harness whose program is at path, or whose installation is
// found when path is "", verifies and witnesses the copy, and publishes it.
// Adopting the same bytes again gives the same record.
//
// Errors: unknown_harness, harness_not_installed, harness_tree_irregular,
// harness_tree_unknown, managed_harness_*, unsupported_harness_version.
func (a Adopter) Adopt(ctx context.Context, id, path string) (messages.AdoptedHarness, error) {
	c, err := a.Contracts.Get(id)
	if err != nil {
		return messages.AdoptedHarness{}, err
	}
	if path == "" {
		if path, err = Find(c, os.Getenv("PATH")); err != nil {
			return messages.AdoptedHarness{}, err
		}
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return messages.AdoptedHarness{}, problem.Wrap(err, "harness_not_installed", "%s can't be found", path)
	}
	if err := paths.MakePrivate(filepath.Join(a.Root, id)); err != nil {
		return messages.AdoptedHarness{}, err
	}
	stage := filepath.Join(a.Root, id, staging+rand.Text()[:10])
	if err := os.Mkdir(stage, 0o700); err != nil {
		return messages.AdoptedHarness{}, broken(err)
	}
	defer removeTree(stage)
	rec, err := a.stage(ctx, c, path, stage)
	if err != nil {
		return messages.AdoptedHarness{}, err
	}
	return a.publish(ctx, c, rec, stage)
}

// stage copies and verifies. Only the copy is judged: the original may change
// at any moment.
func (a Adopter) stage(ctx context.Context, c contracts.Contract, path, stage string) (messages.AdoptedHarness, error) {
	// The original is held while it is copied, so that one that is being
	// written right now is refused.
	held, err := harness.Hold(ctx, path, harness.Rules{Linking: c.Linking, RootMayOwn: true, Hardlinks: true})
	if err != nil {
		return messages.AdoptedHarness{}, err
	}
	defer held.Close()
	tree := filepath.Join(stage, treeName)
	rec := messages.AdoptedHarness{Harness: c.ID, Source: path, Adopted: a.Now().UTC()}
	if c.WholeTree {
		root, ok := strings.CutSuffix(path, "/"+filepath.FromSlash(c.Entry))
		if !ok {
			return rec, problem.New("harness_tree_unknown", "%s is not %s in a vendor tree of %s", path, c.Entry, c.Name).
				WithHint("Name the native program of the vendor's package.")
		}
		rec.Reflinked, rec.Files, err = copyTree(ctx, root, tree)
	} else {
		to := filepath.Join(tree, filepath.FromSlash(c.Entry))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return rec, broken(err)
		}
		rec.Reflinked, err = copyFile(ctx, path, to, true)
		rec.Files = 1
	}
	if err != nil {
		return rec, keepProblem(err)
	}
	if err := held.Recheck(); err != nil {
		return rec, err
	}
	if rec.Tree, err = Digest(ctx, tree); err != nil {
		return rec, keepProblem(err)
	}
	entry := filepath.Join(tree, filepath.FromSlash(c.Entry))
	v := harness.Verifier{Contracts: a.Contracts, Scratch: a.Scratch}
	if rec.Identity, rec.Version, err = v.Identify(ctx, c.ID, entry); err != nil {
		return rec, err
	}
	if rec.Identity.SHA256 != held.Identity().SHA256 {
		return rec, problem.New("managed_harness_identity_changed", "%s changed while it was copied", path).
			WithHint("Start again when its installation has finished.")
	}
	return rec, nil
}

// publish renames the stage to its digest, unless that is there already.
func (a Adopter) publish(ctx context.Context, c contracts.Contract, rec messages.AdoptedHarness, stage string) (messages.AdoptedHarness, error) {
	final := filepath.Join(a.Root, c.ID, rec.Tree)
	rec.Identity.Path = filepath.Join(final, treeName, filepath.FromSlash(c.Entry))
	if old, err := a.load(final); err == nil {
		// The same bytes: whether they still are, is looked at once more.
		return old, VerifyTree(ctx, filepath.Join(final, treeName), old.Tree)
	}
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return rec, broken(err)
	}
	if err := os.WriteFile(filepath.Join(stage, recordName), text, 0o400); err != nil {
		return rec, broken(err)
	}
	if err := seal(filepath.Join(stage, treeName)); err != nil {
		return rec, broken(err)
	}
	if err := os.Rename(stage, final); err != nil {
		if old, lerr := a.load(final); lerr == nil {
			return old, nil // somebody else adopted the same at the same time
		}
		return rec, broken(err)
	}
	return rec, syncDir(filepath.Dir(final))
}

// VerifyTree refuses with managed_harness_identity_changed unless the tree at
// root still has the digest that was recorded when it was adopted.
func VerifyTree(ctx context.Context, root, want string) error {
	have, err := Digest(ctx, root)
	if err != nil {
		return keepProblem(err)
	}
	if have != want {
		return treeChanged(root)
	}
	return nil
}

func treeChanged(root string) error {
	return problem.New("managed_harness_identity_changed", "the vendor tree at %s is not what was adopted", root).
		WithHint("Delete %s and adopt it again: sophia harness adopt.", filepath.Dir(root))
}

// TreeOf is the root of the adopted tree that a program lies in, for
// VerifyTree; "" when it was not adopted below Root.
func (a Adopter) TreeOf(program string) string {
	rel, err := filepath.Rel(a.Root, program)
	if err != nil {
		return ""
	}
	parts := strings.Split(rel, string(filepath.Separator))
	if len(parts) < 4 || parts[0] == ".." || parts[2] != treeName {
		return ""
	}
	return filepath.Join(a.Root, parts[0], parts[1], treeName)
}

// List is what is adopted, newest first. What is half made is not listed.
func (a Adopter) List() ([]messages.AdoptedHarness, error) {
	var out []messages.AdoptedHarness
	for _, id := range a.Contracts.IDs() {
		dirs, err := os.ReadDir(filepath.Join(a.Root, id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, broken(err)
		}
		for _, d := range dirs {
			if strings.HasPrefix(d.Name(), staging) {
				continue
			}
			rec, err := a.load(filepath.Join(a.Root, id, d.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, rec)
		}
	}
	slices.SortStableFunc(out, func(x, y messages.AdoptedHarness) int {
		return cmp.Or(y.Adopted.Compare(x.Adopted), strings.Compare(x.Tree, y.Tree))
	})
	return out, nil
}

// Current is the newest adopted copy of a harness at the witnessed version, or
// harness_not_adopted.
func (a Adopter) Current(id string) (messages.AdoptedHarness, error) {
	c, err := a.Contracts.Get(id)
	if err != nil {
		return messages.AdoptedHarness{}, err
	}
	all, err := a.List()
	if err != nil {
		return messages.AdoptedHarness{}, err
	}
	for _, rec := range all {
		if rec.Harness == id && rec.Version == c.Version {
			return rec, nil
		}
	}
	return messages.AdoptedHarness{}, problem.New("harness_not_adopted", "%s has not been adopted at %s", c.Name, c.Version).
		WithHint("Run: sophia harness adopt %s", id)
}

func (a Adopter) load(dir string) (messages.AdoptedHarness, error) {
	var rec messages.AdoptedHarness
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return rec, broken(err)
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return rec, broken(err)
	}
	c, err := a.Contracts.Get(rec.Harness)
	if err != nil {
		return rec, err
	}
	if rec.Tree != filepath.Base(dir) {
		return rec, problem.New("managed_harness_identity_changed", "%s was adopted under another name", dir).
			WithHint("Delete it and adopt it again: sophia harness adopt.")
	}
	// Where it lies is a matter of where Root is now, not of the record.
	rec.Identity.Path = filepath.Join(dir, treeName, filepath.FromSlash(c.Entry))
	return rec, nil
}

func copyTree(ctx context.Context, from, to string) (reflinked bool, files int, err error) {
	reflinked = true
	err = walk(ctx, from, func(rel string, info fs.FileInfo) error {
		target := filepath.Join(to, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		link, err := copyFile(ctx, filepath.Join(from, filepath.FromSlash(rel)), target, info.Mode()&0o111 != 0)
		reflinked = reflinked && link
		files++
		return err
	})
	return reflinked && files > 0, files, err
}

// seal takes the right to write from all folders, innermost first, and brings
// them to the disk.
func seal(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, syncDir(d), os.Chmod(d, 0o555))
	}
	return err
}

func removeTree(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir) // what stays has a staging name and is not listed
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func keepProblem(err error) error {
	if problem.CodeOf(err) != "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return broken(err)
}

func broken(err error) error {
	return problem.Wrap(err, "harness_not_adopted", "the harness could not be copied into Sophia's folder").
		WithHint("See that there is room on the disk: Codex takes 310 MB.")
}
