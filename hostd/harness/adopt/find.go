package adopt

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

// Find returns the native program of an installed harness: what PATH leads to,
// or, when that is a launcher script, the program of the package that the
// script belongs to.
func Find(c contracts.Contract, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // the current folder is nobody's installation
		}
		at, err := filepath.EvalSymlinks(filepath.Join(dir, c.Command))
		if err != nil {
			continue
		}
		if isELF(at) && (!c.WholeTree || strings.HasSuffix(at, "/"+c.Entry)) {
			return at, nil
		}
		for _, pattern := range c.Launchers {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(at), pattern))
			if err != nil {
				continue
			}
			if i := slices.IndexFunc(found, func(p string) bool { return isELF(p) && ours(p) }); i >= 0 {
				return found[i], nil
			}
		}
	}
	return "", problem.New("harness_not_installed", "%s was not found on PATH", c.Name).
		WithHint("Install it, or name its native program: sophia harness adopt %s --path FILE", c.ID)
}

// ours: not the build for another machine, or for musl, beside the right one.
func ours(p string) bool {
	other := map[string][]string{"amd64": {"arm64", "aarch64"}, "arm64": {"-x64", "x86_64"}}[runtime.GOARCH]
	return !slices.ContainsFunc(other, func(s string) bool { return strings.Contains(p, s) })
}

func isELF(p string) bool {
	f, err := os.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	n, _ := f.Read(magic)
	return string(magic[:n]) == "\x7fELF"
}
