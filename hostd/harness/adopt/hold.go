package adopt

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"sophia/hostd/harness"
	"sophia/messages/problem"
)

// maxHeld bounds the files of a tree that stay open. Codex has 6.
const maxHeld = 128

// Held is an adopted tree whose every file is held from its hash on: what the
// program runs by path later is guarded as the program itself is.
type Held struct {
	root  string
	nodes []node
	files []*harness.Held // in the order of nodes; nil where there are too many to keep open
	entry *harness.Held
}

// HoldTree opens, checks and hashes all files of the tree at root, several at
// once, and refuses with managed_harness_identity_changed unless it has the
// recorded digest. The program at entry is held under rules. The bytes of each
// file are read once: the program's own digest is of the same pass.
func HoldTree(ctx context.Context, root, want, entry string, rules harness.Rules) (_ *Held, err error) {
	h := &Held{root: root}
	if h.nodes, err = list(ctx, root); err != nil {
		return nil, keepProblem(err)
	}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if err := h.open(ctx, entry, rules); err != nil {
		return nil, err
	}
	if digest(h.nodes) != want {
		return nil, treeChanged(root)
	}
	if h.entry == nil {
		return nil, problem.New("managed_harness_missing", "the adopted tree at %s has no %s", root, entry).
			WithHint("Delete %s and adopt it again: sophia harness adopt.", filepath.Dir(root))
	}
	return h, nil
}

// list is the tree's files without their digests.
func list(ctx context.Context, root string) (nodes []node, err error) {
	err = walk(ctx, root, func(rel string, info fs.FileInfo) error {
		nodes = append(nodes, node{rel: rel, size: info.Size(), exec: info.Mode()&0o111 != 0})
		return nil
	})
	return nodes, err
}

// open hashes the largest files first, so that no processor waits at the end
// for the one that is left.
func (h *Held) open(ctx context.Context, entry string, rules harness.Rules) error {
	order := make([]int, len(h.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(h.nodes[b].size - h.nodes[a].size) })
	h.files = make([]*harness.Held, len(h.nodes))
	keep := len(h.nodes) <= maxHeld
	errs := make([]error, len(h.nodes))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(order)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = h.openOne(ctx, i, entry, rules, keep)
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

func (h *Held) openOne(ctx context.Context, i int, entry string, rules harness.Rules, keep bool) error {
	n := &h.nodes[i]
	program := n.rel == entry
	if !program {
		rules = harness.Rules{Data: true}
	}
	f, err := harness.Hold(ctx, filepath.Join(h.root, filepath.FromSlash(n.rel)), rules)
	if err != nil {
		return err
	}
	id := f.Identity()
	n.size, n.exec, n.sum = id.Size, id.Mode&0o111 != 0, id.SHA256
	switch {
	case program:
		h.files[i], h.entry = f, f
	case keep:
		h.files[i] = f
	default:
		return f.Close()
	}
	return nil
}

// Entry is the held program.
func (h *Held) Entry() *harness.Held { return h.entry }

// Guarded says whether the kernel guards every file, so that a Recheck that
// finds nothing is as good as hashing them again.
func (h *Held) Guarded() bool {
	return !slices.ContainsFunc(h.files, func(f *harness.Held) bool { return f == nil || f.Lease() != nil })
}

// Recheck looks whether anything has changed: each held file as harness.Held
// does, and that no file came or went.
func (h *Held) Recheck(ctx context.Context) error {
	now, err := list(ctx, h.root)
	if err != nil {
		return keepProblem(err)
	}
	same := slices.EqualFunc(now, h.nodes, func(a, b node) bool { return a.rel == b.rel && a.size == b.size && a.exec == b.exec })
	if !same {
		return treeChanged(h.root)
	}
	for _, f := range h.files {
		if f == nil {
			continue
		}
		if err := f.Recheck(); err != nil {
			return err
		}
	}
	return nil
}

// Close gives up all descriptors and leases.
func (h *Held) Close() error {
	var errs []error
	for _, f := range h.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
