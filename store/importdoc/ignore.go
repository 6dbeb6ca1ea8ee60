package importdoc

import (
	"path"
	"strings"
)

// skipped folders are never the owner's documents, whatever a .gitignore says.
var skipped = map[string]bool{".git": true, ".hg": true, ".svn": true, "node_modules": true, "bin": true, "dist": true, "target": true,
	"__pycache__": true, ".cache": true, ".venv": true, ".idea": true, ".vscode": true}

// ignore is a .gitignore of the root folder: names, globs, rooted paths,
// folders ("x/"), "**/" in front, and exceptions ("!x"). See gitignore(5).
type ignore []rule

type rule struct {
	glob   string
	rooted bool
	folder bool
	except bool
}

func parseIgnore(text string) ignore {
	var out ignore
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var r rule
		if rest, ok := strings.CutPrefix(line, "!"); ok {
			r.except, line = true, rest
		}
		if rest, ok := strings.CutSuffix(line, "/"); ok {
			r.folder, line = true, rest
		}
		line = strings.TrimPrefix(line, "**/")
		r.rooted = strings.Contains(line, "/")
		r.glob = strings.TrimPrefix(line, "/")
		if _, err := path.Match(r.glob, "x"); err == nil && r.glob != "" {
			out = append(out, r)
		}
	}
	return out
}

// skips says whether a path (with slashes, relative to the root) is left out.
// The last rule that matches decides.
func (ig ignore) skips(p string, folder bool) bool {
	if folder && skipped[path.Base(p)] {
		return true
	}
	out := false
	for _, r := range ig {
		if r.folder && !folder {
			continue
		}
		name := p
		if !r.rooted {
			name = path.Base(p)
		}
		if ok, _ := path.Match(r.glob, name); ok {
			out = !r.except
		}
	}
	return out
}
