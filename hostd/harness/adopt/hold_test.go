package adopt_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/hostd/harness/adopt"
	"sophia/messages/problem"
)

func TestHoldTree_IsTheAdoptedOne(t *testing.T) {
	a, root := adopter(t), vendor(t)
	rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	tree := a.TreeOf(rec.Identity.Path)
	h, err := adopt.HoldTree(t.Context(), tree, rec.Tree, "bin/whole", harness.Rules{})
	fatal(t, err)
	defer h.Close()
	fatal(t, h.Entry().Compare(rec.Identity))
	fatal(t, h.Recheck(t.Context()))
	if !h.Guarded() {
		t.Error("not guarded on a file system with leases")
	}
}

// What is wrong before it is held is refused, and what goes wrong while it is
// held is seen without hashing anything again.
func TestHoldTree_EachChangeIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		change func(t *testing.T, tree string)
	}{
		"a helper replaced": {"managed_harness_identity_changed", func(t *testing.T, d string) {
			fatal(t, os.WriteFile(d+"/helpers/new", program(t, "xx"), 0o555))
			fatal(t, os.Rename(d+"/helpers/new", d+"/helpers/rg"))
		}},
		"a file more": {"managed_harness_identity_changed", func(t *testing.T, d string) { fatal(t, os.WriteFile(d+"/helpers/more", nil, 0o644)) }},
		"a file less": {"managed_harness_identity_changed", func(t *testing.T, d string) { fatal(t, os.Remove(d+"/helpers/deep/data")) }},
		"an executable bit": {"managed_harness_identity_changed", func(t *testing.T, d string) {
			fatal(t, os.Chmod(d+"/helpers/deep/data", 0o555))
		}},
		"the program's mode": {"managed_harness_identity_changed", func(t *testing.T, d string) { fatal(t, os.Chmod(d+"/bin/whole", 0o755)) }},
		"a second name":      {"managed_harness_identity_changed", func(t *testing.T, d string) { fatal(t, os.Link(d+"/helpers/rg", d+"/../rg")) }},
	} {
		t.Run(name, func(t *testing.T) {
			a, root := adopter(t), vendor(t)
			rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
			fatal(t, err)
			tree := a.TreeOf(rec.Identity.Path)
			h, err := adopt.HoldTree(t.Context(), tree, rec.Tree, "bin/whole", harness.Rules{})
			fatal(t, err)
			defer h.Close()
			for _, d := range []string{"", "/helpers", "/helpers/deep", "/.."} {
				fatal(t, os.Chmod(tree+d, 0o755))
			}
			c.change(t, tree)
			if err := h.Recheck(t.Context()); problem.CodeOf(err) != c.code {
				t.Errorf("held: %v, want %s", err, c.code)
			}
		})
	}
}

func TestHoldTree_CatchesAWriterOfAHelper(t *testing.T) {
	a, root := adopter(t), vendor(t)
	rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	tree := a.TreeOf(rec.Identity.Path)
	fatal(t, os.Chmod(tree+"/helpers/rg", 0o755))
	if _, err := adopt.HoldTree(t.Context(), tree, "another digest", "bin/whole", harness.Rules{}); problem.CodeOf(err) != "managed_harness_identity_changed" {
		t.Errorf("another tree: %v", err)
	}
	h, err := adopt.HoldTree(t.Context(), tree, rec.Tree, "bin/whole", harness.Rules{})
	fatal(t, err)
	defer h.Close()
	if fd, err := unix.Open(tree+"/helpers/rg", unix.O_WRONLY|unix.O_NONBLOCK, 0); err != unix.EWOULDBLOCK {
		unix.Close(fd)
		t.Fatalf("opened for writing while it is held: %v", err)
	}
	if err := h.Recheck(t.Context()); problem.CodeOf(err) != "managed_harness_identity_changed" {
		t.Errorf("held: %v", err)
	}
}

func TestHoldTree_RefusesAWriterThatIsThere(t *testing.T) {
	a, root := adopter(t), vendor(t)
	rec, err := a.Adopt(t.Context(), "whole", root+"/bin/whole")
	fatal(t, err)
	tree := a.TreeOf(rec.Identity.Path)
	fatal(t, os.Chmod(tree+"/helpers/rg", 0o755))
	f, err := os.OpenFile(tree+"/helpers/rg", os.O_WRONLY, 0)
	fatal(t, err)
	defer f.Close()
	if _, err := adopt.HoldTree(t.Context(), tree, rec.Tree, "bin/whole", harness.Rules{}); problem.CodeOf(err) != "managed_harness_open_for_writing" {
		t.Error(err)
	}
}
